// Memory of this process as the system sees it.
#pragma once

#include <cstdint>

namespace tenon::tools {

// Watches how far resident memory rises above what it was when the watch began.
class ResidentMemoryWatch {
 public:
  ResidentMemoryWatch();
  // Bytes; since the process began if the system refuses to reset its mark.
  int64_t peak_growth() const;

 private:
  int64_t before_;
};

// Page faults of this process so far that no disk had to serve: memory that the system gave anew.
int64_t minor_page_faults();

}  // namespace tenon::tools
