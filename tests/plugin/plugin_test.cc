// The CUDA plug-in as a file: what it holds, when it is opened, and what is said when it is not.
#include <catch2/catch.hpp>
#include <iostream>
#include <set>
#include <sstream>

#include "tenon/core/plugin.h"
#include "tenon/core/runtime.h"
#include "tenon/tests/plugin/child.h"
#include "tenon/tests/support/slots.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;

TEST_CASE("child: device", "[.]") {
  if (has_runtime(DeviceType::cuda)) {
    std::cout << "device: " << runtime(DeviceType::cuda).describe(0) << "\n";
  } else {
    std::cout << "none: " << cuda_plugin().reason << "\n";
  }
}

TEST_CASE("child: slots", "[.]") {
  static_cast<void>(has_runtime(DeviceType::cuda));
  for (const KernelSlotBase* slot : all_slots()) {
    std::cout << (slot->filled(DeviceType::cuda) ? "" : str("empty: ", slot->op(), "\n"));
  }
  std::cout << "slots: " << all_slots().size() << "\n";
}

// Symbols that a file defines for others, mangled; weak ones (inline functions, slots) aside.
std::set<std::string> strong_symbols(const std::string& file) {
  const Outcome listed = run_program({"nm", "-D", "--defined-only", file});
  REQUIRE(listed.status == 0);
  std::set<std::string> names;
  std::istringstream lines(listed.out);
  std::string address, kind, name;
  while (lines >> address >> kind >> name) {
    if (std::string("TDBR").find(kind) != std::string::npos) names.insert(name);
  }
  return names;
}

}  // namespace

TEST_CASE("the plug-in for a GPU fills every slot, and says why it cannot compute here") {
  const Outcome slots = child({"TENON_CUDA=" + plugin("libtenon_cuda.so")}, "child: slots");
  INFO(slots.out << slots.err);
  CHECK(slots.status == 0);
  CHECK_THAT(slots.out, !Contains("empty:"));
  CHECK_THAT(slots.out, Contains(str("slots: ", all_slots().size())));
}

TEST_CASE("a plug-in holds no object of the program") {
  const std::set<std::string> own = strong_symbols("/proc/self/exe");
  for (const char* name : {"libtenon_cuda.so", "libtenon_cuda_emulated.so"}) {
    for (const std::string& symbol : strong_symbols(plugin(name))) {
      INFO(name << ": " << symbol);
      // What a toolchain puts into every file.
      if (symbol.rfind("_ZN5tenon", 0) != 0) continue;
      CHECK(own.count(symbol) == 0);
    }
  }
}

TEST_CASE("without a driver the reason says so, and nothing of CUDA is loaded") {
  const Outcome none = child({"TENON_CUDA=", "LD_DEBUG=files"}, "child: device");
  CHECK(none.status == 0);
  if (none.out.find("device: ") != std::string::npos) return;  // a machine with a GPU
  CHECK_THAT(none.out, Contains("none: no driver: libcuda.so.1 not found"));
  for (const char* library : {"libcudart", "libcublas", "libcudnn", "libnccl", "libtenon_cuda"}) {
    CHECK_THAT(none.err, !Contains(library));
  }
}

TEST_CASE("a program that computes on the cpu loads no CUDA library") {
  const Outcome run =
      run_program({"env", "LD_DEBUG=files", "TENON_CUDA=", program("train_mnist"), "--help"});
  CHECK(run.status == 0);
  for (const char* library : {"libcuda", "libcublas", "libcudnn", "libnccl"}) {
    CHECK_THAT(run.err, !Contains(library));
  }
  const Outcome linked = run_program({"ldd", program("train_mnist")});
  CHECK_THAT(linked.out, !Contains("libcu") && !Contains("nccl"));
}

TEST_CASE("what the plug-in finds wrong with the machine is said as it is") {
  const auto with = [](const std::string& state) {
    return child({"TENON_CUDA=emulated", "TENON_EMULATED_FAIL=" + state}, "child: device").out;
  };
  CHECK_THAT(with("driver:none"), Contains("none: a driver but no CUDA device"));
  CHECK_THAT(with("driver:old"), Contains("none: driver too old: it supports CUDA"));
  CHECK_THAT(with(""), Contains("device: cuda:0") && Contains("NCCL") && Contains("cuDNN"));
}

TEST_CASE("a wrong choice of the plug-in is named") {
  const auto with = [](const std::string& choice) {
    return child({"TENON_CUDA=" + choice}, "child: device").out;
  };
  CHECK_THAT(with("off"), Contains("none: TENON_CUDA is off"));
  CHECK_THAT(with("maybe"), Contains("wrong TENON_CUDA: given 'maybe'"));
  CHECK_THAT(with("/does/not/exist.so"), Contains("cannot open the CUDA plug-in"));
}

}  // namespace tenon
