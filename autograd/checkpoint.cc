#include "tenon/autograd/checkpoint.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/autograd/autocast.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/saved_tensor.h"
#include "tenon/core/rank_context.h"

namespace tenon {
namespace {

// Random numbers from a place that was passed before, until the end of the scope.
class RandomScope {
 public:
  explicit RandomScope(const PhiloxKey& state) : now_(rank_context().dropout.state()) {
    rank_context().dropout.set_state(state);
  }
  ~RandomScope() { rank_context().dropout.set_state(now_); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  const PhiloxKey now_;
};

// A block between its forward and its backward.
class Block {
 public:
  Block(std::function<Tensor(const Tensor&)> body, const Tensor& x)
      : body_(std::move(body)),
        input_(x, "checkpoint", "input"),
        needs_gradient_(x.requires_grad()),
        random_(rank_context().dropout.state()),
        autocast_(autocast_dtype()) {}

  // Instead of tensor number places_.size().
  size_t keep(const Tensor& tensor) {
    places_.push_back({tensor.storage(), tensor.version(), describe(tensor), {}, true});
    return places_.size() - 1;
  }
  Tensor recovered(size_t number) {
    if (!places_[number].recomputed.defined()) recompute();
    return places_[number].recomputed;
  }
  // Nobody will ask for it any more.
  void drop(size_t number) {
    places_[number].recomputed = {};
    places_[number].wanted = false;
  }

 private:
  struct Place {
    std::weak_ptr<Storage> storage;  // forward's
    uint32_t version;
    std::string description;
    Tensor recomputed;
    bool wanted;
  };

  // Thrown through the body: what it would still compute, nobody saved.
  struct Complete {};

  void recompute() {
    const RandomScope random(random_);
    const Autocast autocast(autocast_);
    const GradMode recording(true);
    size_t next = 0;
    const SavedTensorHooksScope scope(
        {[&](const Tensor& tensor) {
           take(next++, tensor);
           if (next == places_.size()) throw Complete();
           return std::make_shared<int>();
         },
         [](const std::shared_ptr<void>&) -> Tensor {
           fail("checkpoint", "the block runs backward itself while it is recomputed");
         }});
    const Tensor x = input_.unpack().detach();
    if (needs_gradient_) set_requires_grad(x);
    try {
      body_(x);
    } catch (const Complete&) {
    }
    TENON_CHECK(next == places_.size(), "checkpoint",
                "the block did other work when it ran again: ", next,
                " tensors were saved, wanted ", places_.size());
  }

  void take(size_t number, const Tensor& tensor) {
    Place& place = places_[number];
    TENON_CHECK(describe(tensor) == place.description, "checkpoint",
                "the block did other work when it ran again: it saved ", describe(tensor),
                ", wanted ", place.description);
    TENON_CHECK(place.storage.lock() != tensor.storage() || place.version == tensor.version(),
                "checkpoint", "a tensor that the block read was changed in place before backward: ",
                describe(tensor), " is at version ", tensor.version(), ", wanted ", place.version);
    if (place.wanted) place.recomputed = tensor;
  }

  const std::function<Tensor(const Tensor&)> body_;
  const SavedTensor input_;
  const bool needs_gradient_;
  const PhiloxKey random_;
  const std::optional<DType> autocast_;
  std::vector<Place> places_;
};

// What a node of the block holds instead of a tensor.
struct Ticket {
  Ticket(std::shared_ptr<Block> block, size_t number) : block(std::move(block)), number(number) {}
  ~Ticket() { block->drop(number); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  const std::shared_ptr<Block> block;
  const size_t number;
};

}  // namespace

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& body, const Tensor& x) {
  if (!grad_enabled()) return body(x);
  const auto block = std::make_shared<Block>(body, x);
  const SavedTensorHooksScope scope({[block](const Tensor& tensor) -> std::shared_ptr<void> {
                                       return std::make_shared<Ticket>(block, block->keep(tensor));
                                     },
                                     [](const std::shared_ptr<void>& packed) {
                                       const auto& ticket =
                                           *static_cast<const Ticket*>(packed.get());
                                       return ticket.block->recovered(ticket.number);
                                     }});
  return body(x);
}

}  // namespace tenon
