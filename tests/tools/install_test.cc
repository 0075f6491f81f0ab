#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "tenon/tests/support/skip.h"
#include "tenon/tests/tools/program.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

constexpr const char* kProgram = R"(
#include <tenon.h>

#include <cstdio>

using namespace tenon;

struct Mlp : Module {
  Child<nn::Linear> fc1{this, "fc1", 8, 16};
  Child<nn::Linear> fc2{this, "fc2", 16, 2};
  Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
};

int main(int argc, char** argv) {
  return run_main(argc, argv, [](World& world) {
    seed(1234);
    Mlp model;
    model.to(world.device());
    Ddp ddp(model, world.group());
    AdamW optimizer(ddp.parameters(), {.lr = 1e-2});
    const Tensor x = randn({32, 8});
    std::vector<int64_t> classes;
    for (const double value : narrow(x, 1, 0, 1).to_vector()) classes.push_back(value > 0);
    const Tensor y = from_data(classes, {32});
    float first = 0, last = 0;
    for (int step = 0; step < 50; ++step) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(ddp(x), y);
      loss.backward();
      optimizer.step();
      last = loss.item();
      if (step == 0) first = last;
    }
    if (world.rank() == 0) std::printf("%s\n", last < 0.5f * first ? "learned" : "did not learn");
    return 0;
  });
}
)";

Outcome shell(const std::string& command) { return run_program({"bash", "-c", command}, 240); }

}  // namespace

TEST_CASE("a program outside the tree is built and runs against an installed Tenon") {
#if defined(TENON_ASAN) || defined(TENON_UBSAN) || defined(TENON_TSAN)
  TENON_SKIP("a library with sanitizers does not load into a program without them");
#endif
  const ScratchDirectory folder;
  const std::string prefix = folder.file("prefix"), source = folder.file("mlp.cc");
  const Outcome installed = shell("tools/install.sh --built . --prefix " + prefix);
  INFO(installed.err);
  REQUIRE(installed.status == 0);
  std::ofstream(source) << kProgram;
  const std::string flags = "g++ -O1 " + source + " $(sed -nE 's/^(Cflags|Libs): //p' " + prefix +
                            "/lib/pkgconfig/tenon.pc | sed 's|${includedir}|" + prefix +
                            "/include|g; s|${libdir}|" + prefix + "/lib|g') -o " +
                            folder.file("mlp");
  const bool have_pkg_config = shell("command -v pkg-config").status == 0;
  const Outcome compiled =
      shell(have_pkg_config ? "PKG_CONFIG_PATH=" + prefix + "/lib/pkgconfig; " +
                                  "export PKG_CONFIG_PATH; g++ -O1 " + source +
                                  " $(pkg-config --cflags --libs tenon) -o " + folder.file("mlp")
                            : flags);
  INFO(compiled.err);
  REQUIRE(compiled.status == 0);
  const Outcome alone = run_program({folder.file("mlp")});
  INFO(alone.out << alone.err);
  CHECK(alone.last_line() == "learned");
  CHECK(run_program(on_ranks(2, {folder.file("mlp")})).last_line() == "learned");
}

TEST_CASE("installation refuses unknown arguments and needs a prefix") {
  CHECK(shell("tools/install.sh --no-such").status == 2);
  CHECK(shell("tools/install.sh").status == 2);
}
