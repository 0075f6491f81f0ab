#include "tenon/tools/shared_folder.h"

#include <unistd.h>

#include "tenon/core/factory.h"

namespace tenon::tools {

SharedFolder::SharedFolder(ProcessGroup group) : group_(std::move(group)) {
  const Tensor number = from_vector({static_cast<double>(::getpid())}, {1}, {.dtype = DType::i64});
  group_.broadcast(number, 0).wait();
  path_ = std::filesystem::temp_directory_path() / str("tenon_bench.", number.item<int64_t>());
  std::filesystem::create_directories(path_);
}

SharedFolder::~SharedFolder() {
  std::error_code ignored;
  if (group_.rank() == 0) std::filesystem::remove_all(path_, ignored);
}

}  // namespace tenon::tools
