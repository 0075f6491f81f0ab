#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/nn/child.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::error_of;

namespace {

// y = weight * x + bias, with a count of its calls.
struct Scale : Module {
  explicit Scale(double value = 1, bool with_bias = true)
      : weight(this, "weight", full({2}, value, {.dtype = default_dtype()})),
        bias(this, "bias", with_bias ? zeros({2}, {.dtype = default_dtype()}) : Tensor()) {}
  Tensor forward(const Tensor& x) {
    const Tensor y = compute(x) * compute(weight);
    return bias.defined() ? y + compute(bias) : y;
  }
  std::pair<Tensor, int> twice(const Tensor& x, int n) { return {forward(forward(x)), n + 1}; }

  Parameter weight;
  Parameter bias;
};

struct Pair : Module {
  explicit Pair(double value) : first{this, "first", value}, second{this, "second", value, false} {}
  Child<Scale> first;
  Buffer seen{this, "seen", zeros({1}), BufferSync::mean};
  Child<Scale> second;
  Tensor forward(const Tensor& x) { return second(first(x)); }
};

struct Net : Module {
  Child<Pair> head{this, "head", 2.0};
  ChildList<Pair> blocks{this, "blocks", 2, 3.0};
  Parameter gain{this, "gain", ones({1})};
  Buffer count{this, "count", zeros({}, {.dtype = DType::i64}), BufferSync::local};
  Tensor forward(const Tensor& x) {
    Tensor y = head(x);
    for (auto& block : blocks) y = block(y);
    return y * gain;
  }
};

std::vector<std::string> names(const std::vector<NamedTensor>& list) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

struct Output {
  Tensor logits;
  std::optional<Tensor> cache;
  int step = 0;
  template <class Visit>
  void for_each_tensor(Visit&& visit) const {
    tenon::for_each_tensor(std::tie(logits, cache), visit);
  }
};

}  // namespace

namespace other {

struct Foreign {
  Tensor hidden;
};
template <class Visit>
void for_each_tensor(const Foreign& value, Visit&& visit) {
  visit(value.hidden);
}

}  // namespace other

TEST_CASE("parameters have dotted names in the order of declaration") {
  Net net;
  CHECK(names(net.parameters()) ==
        std::vector<std::string>{"head.first.weight", "head.first.bias", "head.second.weight",
                                 "blocks.0.first.weight", "blocks.0.first.bias",
                                 "blocks.0.second.weight", "blocks.1.first.weight",
                                 "blocks.1.first.bias", "blocks.1.second.weight", "gain"});
  CHECK(net.parameter_count() == 19);
  for (const auto& [name, tensor] : net.parameters()) {
    CHECK(tensor.requires_grad());
    CHECK(tensor.storage()->category() == Category::parameter);
  }
}

TEST_CASE("buffers come with their policy and as they are now") {
  Net net;
  const std::vector<NamedBuffer> buffers = net.buffers();
  REQUIRE(buffers.size() == 4);
  CHECK(buffers[0].name == "head.seen");
  CHECK(buffers[0].sync == BufferSync::mean);
  CHECK(buffers[3].name == "count");
  CHECK(buffers[3].sync == BufferSync::local);
  net.head->seen = ones({3});
  CHECK(net.buffers()[0].tensor.shape() == Shape{3});
}

TEST_CASE("children and modules are visited with their names") {
  Net net;
  REQUIRE(net.children().size() == 2);
  CHECK(net.children()[1].name == "blocks");
  CHECK(net.children()[0].module == &*net.head);
  std::vector<std::string> seen;
  net.for_each_module([&](const std::string& name, Module&) { seen.push_back(name); });
  CHECK(seen == std::vector<std::string>{"", "head", "head.first", "head.second", "blocks",
                                         "blocks.0", "blocks.0.first", "blocks.0.second",
                                         "blocks.1", "blocks.1.first", "blocks.1.second"});
}

TEST_CASE("training mode reaches every module") {
  Net net;
  net.eval();
  CHECK_FALSE(net.training());
  CHECK_FALSE(net.blocks[1]->second->training());
  net.train();
  CHECK(net.blocks[1]->second->training());
}

TEST_CASE("bad and duplicate names are errors") {
  struct Dotted : Module {
    Parameter p{this, "a.b", ones({1})};
  };
  struct Empty : Module {
    Buffer p{this, "", ones({1})};
  };
  struct Twice : Module {
    Parameter p{this, "p", ones({1})};
    Child<Scale> q{this, "p"};
  };
  struct Whole : Module {
    Parameter p{this, "p", arange(3)};
  };
  CHECK_THAT(error_of([] { Dotted(); }), Contains("given \"a.b\""));
  CHECK_THAT(error_of([] { Empty(); }), Contains("given \"\""));
  CHECK_THAT(error_of([] { Twice(); }), Contains("two members with one name: given \"p\""));
  CHECK_THAT(error_of([] { Whole(); }), Contains("floating dtype"));
}

TEST_CASE("a tied parameter appears once and stays tied") {
  struct Tied : Module {
    Child<Scale> in{this, "in", 1.0, false};
    Child<Scale> out{this, "out", 2.0, false};
    Tied() { out->weight.tie(in->weight); }
  } tied;
  CHECK(names(tied.parameters()) == std::vector<std::string>{"in.weight"});
  CHECK(tied.out->weight.to_vector() == std::vector<double>{1, 1});
  tied.to(DType::f64);
  CHECK(tied.out->weight.dtype() == DType::f64);
  CHECK(tied.out->weight.is_same(tied.in->weight));
  CHECK_THAT(error_of([&] {
               struct Other : Module {
                 Parameter p{this, "p", ones({3})};
               } other;
               other.p.tie(tied.in->weight);
             }),
             Contains("shapes differ"));
}

TEST_CASE("a member that is gone is not listed") {
  struct Late : Module {
    std::optional<Child<Scale>> extra;
  } late;
  late.extra.emplace(&late, "extra");
  CHECK(late.parameters().size() == 2);
  late.extra.reset();
  CHECK(late.parameters().empty());
  late.extra.emplace(&late, "extra");
  CHECK(late.parameters().size() == 2);
}

TEST_CASE("for_each_tensor finds every tensor in a value") {
  const Tensor a = ones({1}), b = ones({2}), c = ones({3});
  const auto sizes = [](const auto& value) {
    std::vector<int64_t> found;
    for_each_tensor(value, [&](const Tensor& x) { found.push_back(x.numel()); });
    return found;
  };
  using Sizes = std::vector<int64_t>;
  CHECK(sizes(a) == Sizes{1});
  CHECK(sizes(std::tuple{a, 7, b, std::string("x"), "y"}) == Sizes{1, 2});
  CHECK(sizes(std::pair{b, std::vector<Tensor>{c, a}}) == Sizes{2, 3, 1});
  CHECK(sizes(std::array<Tensor, 2>{c, a}) == Sizes{3, 1});
  CHECK(sizes(std::optional<Tensor>{}) == Sizes{});
  CHECK(sizes(std::optional{b}) == Sizes{2});
  CHECK(sizes(std::map<std::string, std::pair<Tensor, int>>{{"x", {a, 1}}, {"y", {b, 2}}}) ==
        Sizes{1, 2});
  CHECK(sizes(Output{a, b}) == Sizes{1, 2});
  CHECK(sizes(std::vector{Output{a, {}}, Output{c, b}}) == Sizes{1, 3, 2});
  CHECK(sizes(std::pair{1, other::Foreign{c}}) == Sizes{3});
  CHECK(sizes(std::vector<int64_t>{1, 2}) == Sizes{});
  const Parameter* none = nullptr;
  CHECK(sizes(std::pair{2.5, none}) == Sizes{});
}

TEST_CASE("hooks run around forward and see inputs and outputs") {
  Pair pair(3);
  std::vector<std::string> events;
  auto note = [&](const std::string& what) {
    return [&events, what](Module&, const VisitTensors& tensors) {
      std::string text = what;
      tensors([&](const Tensor& x) { text += str(" ", x.to_vector()[0]); });
      events.push_back(text);
    };
  };
  HookHandle before = pair.first->register_forward_pre_hook(note("before"));
  pair.first->register_forward_pre_hook([&](Module& module) {
    CHECK(&module == &*pair.first);
    events.push_back("short");
  });
  pair.first->register_forward_hook(note("after"));
  pair.register_forward_hook(note("outer"));
  call_module(pair, full({2}, 5));
  CHECK(events == std::vector<std::string>{"before 5", "short", "after 15", "outer 45"});
  events.clear();
  before.remove();
  const auto [y, n] = pair.first.call(&Scale::twice, full({2}, 1), 4);
  CHECK(y.to_vector()[0] == 9);
  CHECK(n == 5);
  CHECK(events == std::vector<std::string>{"short", "after 9"});
}

TEST_CASE("a handle may outlive its module, and a hook may remove itself") {
  HookHandle left;
  {
    Scale scale;
    left = scale.register_forward_hook([](Module&, const VisitTensors&) {});
    HookHandle self;
    int calls = 0;
    self = scale.register_forward_pre_hook([&](Module&) {
      ++calls;
      self.remove();
    });
    call_module(scale, ones({2}));
    call_module(scale, ones({2}));
    CHECK(calls == 1);
  }
  left.remove();
}

TEST_CASE("forward may return nothing and take references") {
  struct Writer : Module {
    void forward(std::vector<double>& into, const Tensor& x) { into = x.to_vector(); }
  };
  struct Owner : Module {
    Child<Writer> writer{this, "writer"};
  } owner;
  std::vector<double> values;
  owner.writer(values, full({2}, 4));
  CHECK(values == std::vector<double>{4, 4});
}

TEST_CASE("conversion keeps handles, drops gradients and leaves other buffers alone") {
  Net net;
  const NamedTensor handle = net.parameters()[0];
  sum(net.forward(ones({2}))).backward();
  CHECK(handle.tensor.grad().defined());
  net.to(DType::f64);
  CHECK(handle.tensor.dtype() == DType::f64);
  CHECK(handle.tensor.to_vector() == std::vector<double>{2, 2});
  CHECK(handle.tensor.requires_grad());
  CHECK_FALSE(handle.tensor.grad().defined());
  CHECK(handle.tensor.storage()->category() == Category::parameter);
  CHECK(net.head->seen.dtype() == DType::f64);
  CHECK(net.count.dtype() == DType::i64);
  net.to(default_device());
  sum(net.forward(ones({2}, {.dtype = DType::f64}))).backward();
  CHECK(handle.tensor.grad().dtype() == DType::f64);
  net.zero_grad();
  CHECK_FALSE(handle.tensor.grad().defined());
  CHECK_THAT(error_of([&] { net.to(DType::i64); }), Contains("given i64"));
}

TEST_CASE("modules are built in the default dtype of the scope") {
  CHECK(default_dtype() == DType::f32);
  {
    const DefaultDType scope(DType::f64);
    CHECK(Scale().weight.dtype() == DType::f64);
  }
  CHECK(Scale().weight.dtype() == DType::f32);
  CHECK_THAT(error_of([] { DefaultDType scope(DType::u8); }), Contains("given u8"));
}

TEST_CASE("compute copies are made once per change of the parameter") {
  Scale scale(1.25);
  const Tensor first = scale.weight.compute_copy(DType::bf16);
  CHECK(first.dtype() == DType::bf16);
  CHECK(first.requires_grad());
  CHECK(scale.weight.compute_copy(DType::bf16).storage() == first.storage());
  CHECK(first.version() == scale.weight.compute_copy(DType::bf16).version());
  mul_(scale.weight.detach(), 2);
  CHECK(scale.weight.compute_copy(DType::bf16).to_vector() == std::vector<double>{2.5, 2.5});
  CHECK(scale.weight.compute_copy(DType::f32).is_same(scale.weight));
}

TEST_CASE("gradients through compute copies are the parameter's own, in its dtype") {
  Pair pair(0.5);
  pair.set_compute_dtype(DType::bf16);
  CHECK(pair.second->compute_dtype() == DType::bf16);
  for (int pass = 1; pass <= 2; ++pass) {
    const Tensor y = pair.forward(full({2}, 3));
    CHECK(y.dtype() == DType::bf16);
    sum(to(y, DType::f32)).backward();
    const Tensor gradient = pair.first->weight.grad();
    CHECK(gradient.dtype() == DType::f32);
    CHECK(gradient.to_vector() == std::vector<double>{1.5 * pass, 1.5 * pass});
    CHECK(pair.first->bias.grad().to_vector() == std::vector<double>{0.5 * pass, 0.5 * pass});
  }
  pair.set_compute_dtype(DType::f32);
  CHECK(pair.forward(full({2}, 3)).dtype() == DType::f32);
  CHECK_THAT(error_of([&] { pair.set_compute_dtype(DType::i32); }), Contains("given i32"));
}

TEST_CASE("within an Autocast scope layers without a compute dtype of their own have the scope's") {
  Pair pair(0.5);
  pair.second->set_compute_dtype(DType::f16);
  {
    const Autocast scope(DType::bf16);
    CHECK(pair.first->compute_dtype() == DType::bf16);
    CHECK(pair.second->compute_dtype() == DType::f16);
    {
      const Autocast none(std::nullopt);
      CHECK(!pair.first->compute_dtype());
    }
    const Tensor y = pair.first(full({2}, 3));
    CHECK(y.dtype() == DType::bf16);
    sum(to(y, DType::f32)).backward();
    CHECK(pair.first->weight.grad().dtype() == DType::f32);
  }
  CHECK(!pair.first->compute_dtype());
  CHECK_THAT(error_of([] { Autocast scope(DType::i64); }), Contains("[autocast] cannot compute"));
}
