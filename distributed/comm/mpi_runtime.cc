#include "tenon/distributed/comm/mpi_runtime.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

namespace tenon::comm {
namespace {

bool has_threads() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  return provided >= MPI_THREAD_SERIALIZED;
}

bool is_detail() {
  const char* text = std::getenv("TENON_DEBUG");
  return text != nullptr && std::string_view(text) == "detail";
}

// Empty unless the transfer has failed.
std::string transfer_error(const Request& request, int code,
                           const std::vector<MPI_Status>& statuses) {
  const Signature& call = request.signature();
  int64_t bytes = 0;
  for (const MPI_Status& status : statuses) {
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    bytes += count;
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR == MPI_ERR_TRUNCATE) {
      return str("[recv] the message is larger than the tensor: ", describe(call));
    }
  }
  const auto wanted = call.count * static_cast<int64_t>(size_of(call.dtype));
  if (code == MPI_SUCCESS && call.op == Op::recv && bytes != wanted) {
    return str("[recv] the message has another size: given ", bytes, " bytes, wanted ", wanted,
               " for ", describe(call));
  }
  return code == MPI_SUCCESS ? "" : str("[", name_of(call.op), "] MPI failed in ", describe(call));
}

}  // namespace

void check_mpi(int code, const char* op) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(op, "MPI failed: ", text);
}

// mpirun of Open MPI ends the job when a rank exits like this and returns its status. MPI_Abort
// would do the same, but in version 4.1 its message often makes mpirun stumble.
void end_ranks(int code) {
  std::fflush(nullptr);
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

MpiRuntime::MpiRuntime(RankContext& context)
    : context_(context),
      detail_(is_detail()),
      timeout_(timeout_seconds()),
      queue_(has_threads(), context, [this] { return poll(); }) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  queue_.run([this] { find_node(); });
}

MpiRuntime::~MpiRuntime() = default;

void MpiRuntime::find_node() {
  MPI_Comm physical = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &physical),
      "world");
  int first = rank_;
  MPI_Bcast(&first, 1, MPI_INT, 0, physical);
  MPI_Comm_rank(physical, &local_rank_);
  MPI_Comm_size(physical, &local_size_);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof(cores), &cores);
  MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof(cores), MPI_BYTE, MPI_BOR, physical);
  cores_per_rank_ = std::max(1, CPU_COUNT(&cores) / local_size_);
  MPI_Comm_free(&physical);
  node_color_ = first;
  if (const char* text = std::getenv("TENON_RANKS_PER_NODE")) {
    const int per_node = std::atoi(text);
    TENON_CHECK(per_node >= 1, "world", "wrong TENON_RANKS_PER_NODE: given '", text,
                "', wanted 1 or more");
    node_color_ = rank_ / per_node;
    local_rank_ = rank_ % per_node;
    local_size_ = std::min(per_node, size_ - node_color_ * per_node);
  }
}

MPI_Comm MpiRuntime::adopt(MPI_Comm comm) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  comms_.push_back(comm);
  return comm;
}

void MpiRuntime::add_transfer(std::shared_ptr<Request> request, std::vector<MPI_Request> parts) {
  const int64_t deadline = now_ns() + static_cast<int64_t>(timeout_ * 1e9);
  transfers_.push_back({std::move(request), std::move(parts), deadline});
}

bool MpiRuntime::poll() {
  std::erase_if(transfers_, [this](Transfer& transfer) { return advance(transfer); });
  return !transfers_.empty();
}

bool MpiRuntime::advance(Transfer& transfer) {
  int done = 0;
  std::vector<MPI_Status> statuses(transfer.parts.size());
  const int code = MPI_Testall(static_cast<int>(transfer.parts.size()), transfer.parts.data(),
                               &done, statuses.data());
  const bool late = now_ns() > transfer.deadline_ns;
  if (code == MPI_SUCCESS && done == 0 && !late) return false;
  std::exception_ptr failure;
  if (code == MPI_SUCCESS && done == 0) {
    failure = std::make_exception_ptr(
        Error(str("[", name_of(transfer.request->signature().op), "] no answer within ", timeout_,
                  " s: rank ", rank_, " waits in ", describe(transfer.request->signature())),
              ErrorKind::peer_lost));
  } else if (std::string text = transfer_error(*transfer.request, code, statuses); !text.empty()) {
    failure = std::make_exception_ptr(Error(text));
  }
  transfer.request->complete(std::move(failure));
  return true;
}

void MpiRuntime::wait_all(std::vector<MPI_Request>& parts, std::span<const int> peers,
                          const Signature& call) {
  constexpr int kSpins = 1000;  // looks before this core is offered to others
  const int64_t deadline = now_ns() + static_cast<int64_t>(timeout_ * 1e9);
  for (int looks = 0;; ++looks) {
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(parts.size()), parts.data(), &done, MPI_STATUSES_IGNORE),
              name_of(call.op));
    if (done != 0) return;
    if (looks < kSpins) continue;
    std::this_thread::yield();
    if (looks % 64 != 0 || now_ns() < deadline) continue;
    std::vector<int> late;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] != MPI_REQUEST_NULL && i < peers.size()) late.push_back(peers[i]);
    }
    std::ranges::sort(late);
    late.erase(std::unique(late.begin(), late.end()), late.end());
    std::string names;
    for (const int peer : late) names += str(" ", peer);
    throw Error(str("[", name_of(call.op), "] no answer within ", timeout_, " s from rank",
                    names.empty() ? " of the group" : names, ", while rank ", rank_, " waits in ",
                    describe(call)),
                ErrorKind::peer_lost);
  }
}

bool MpiRuntime::claim_report() {
  for (const auto& weak : rooms_) {
    if (const auto room = weak.lock()) return room->claim_report();
  }
  return true;
}

void MpiRuntime::close() {
  if (std::exchange(closed_, true)) return;
  queue_.close();
  for (const auto& weak : rooms_) {
    if (const auto room = weak.lock()) room->leave();
  }
  for (MPI_Comm& comm : comms_) MPI_Comm_free(&comm);
  // Wait for the others here, not in MPI_Finalize: if one of them ends the job while this rank is
  // in there, PMIx, which has a fence under way then, makes mpirun hang or crash in its own
  // shutdown.
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

void MpiRuntime::end_job(const std::string& text, int code) {
  std::fflush(stdout);
  if (claim_report()) {
    const int64_t step = context_.step;
    const std::string line =
        str("rank ", rank_, ": ", step > 0 ? str("step ", step, ": ") : "", text, "\n");
    // One write, so that lines of several ranks do not mix.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } else {
    // Another rank has written what all of them have met, and is about to end this one.
    std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  end_ranks(code);
}

}  // namespace tenon::comm
