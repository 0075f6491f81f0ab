// Modules one after the other, each taking and giving one tensor.
//   Child<nn::Sequential> net{this, "net"};
//   net->add<nn::Linear>(784, 128).add<nn::ReLU>().add<nn::Linear>(128, 10);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/nn/child.h"

namespace tenon::nn {

class Sequential : public Module {
 public:
  // Appends a T constructed from `args`; its name is its number.
  template <class T, class... Args>
  Sequential& add(Args&&... args) {
    auto child = std::make_shared<Child<T>>(this, std::to_string(stages_.size()),
                                            std::forward<Args>(args)...);
    stages_.push_back([child](const Tensor& x) -> Tensor { return (*child)(x); });
    return *this;
  }
  Tensor forward(Tensor x) {
    for (const auto& stage : stages_) x = stage(x);
    return x;
  }
  size_t size() const { return stages_.size(); }

 private:
  std::vector<std::function<Tensor(const Tensor&)>> stages_;
};

}  // namespace tenon::nn
