// A PyTorch process (torch_peer.py) that trains what bench_train trains. It lives through the whole
// comparison and makes a run when asked.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tenon/tools/run_log.h"

namespace tenon::tools {

class TorchPeer {
 public:
  // Starts `command` with `environment` on top of ours and waits until it is ready.
  TorchPeer(const std::vector<std::string>& command,
            const std::map<std::string, std::string>& environment);
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  // Sends one command and waits for its answer.
  Json ask(const std::string& command);
  // Milliseconds per step of a run of `steps`.
  double run(int64_t steps);
  // What it said when it was ready.
  const Json& greeting() const { return greeting_; }

 private:
  Json read_answer();

  pid_t process_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  Json greeting_;
};

// The script, beside this program or in its work tree.
std::string torch_peer_script();

}  // namespace tenon::tools
