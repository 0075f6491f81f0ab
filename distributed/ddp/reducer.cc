#include "tenon/distributed/ddp/reducer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/distributed/verify.h"
#include "tenon/kernels/copy.h"

namespace tenon {
namespace {

constexpr Call kSetup{.tag = "setup"};

std::vector<std::string> description_of(const Module& model) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : model.parameters()) {
    lines.push_back(str("parameter '", name, "' ", tensor.dtype(), " ", tensor.shape(),
                        tensor.requires_grad() ? "" : " frozen"));
  }
  for (const NamedBuffer& buffer : model.buffers()) {
    lines.push_back(
        str("buffer '", buffer.name, "' ", buffer.tensor.dtype(), " ", buffer.tensor.shape()));
  }
  return lines;
}

// Names of parameters for an error: the first few and how many more.
std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += str(i == 0 ? "'" : ", '", names[i], "'");
  }
  if (names.size() > kShown) text += str(" and ", names.size() - kShown, " more");
  return text;
}

void broadcast_from_rank_0(ProcessGroup& group, const Tensor& tensor, Call call) {
  Tensor data = tensor.detach();
  if (data.is_contiguous()) {
    group.broadcast(data, 0, call).wait();
  } else {
    Tensor copy = empty(data.shape(), {data.dtype(), data.device(), Category::other});
    kernels::copy(data.device().type, data, copy);
    group.broadcast(copy, 0, call).wait();
    kernels::copy(data.device().type, copy, data);
  }
  tensor.bump_version();
}

}  // namespace

DdpReducer::DdpReducer(Module& model, ProcessGroup group, DdpOptions options)
    : model_(model),
      group_(std::move(group)),
      options_(options),
      parameters_(model.parameters()),
      slots_(parameters_.size()) {
  TENON_CHECK(!trainable().empty(), "ddp", "nothing to train: given a model of ",
              parameters_.size(), " parameters, none of which requires a gradient");
  verify_and_broadcast();
  std::vector<size_t> order = trainable();
  std::reverse(order.begin(), order.end());
  make_plan(order);

  std::vector<Tensor> leaves;
  for (const NamedTensor& parameter : parameters_) leaves.push_back(parameter.tensor);
  countdown_ = std::make_unique<GradCountdown>(
      leaves, GradCountdown::Events{[this] { begin_backward(); },
                                    [this](size_t leaf) { gradient_arrived(leaf); },
                                    [this] { end_backward(); }, [this] { works_.clear(); }});
}

DdpReducer::~DdpReducer() = default;

std::vector<size_t> DdpReducer::trainable() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].tensor.requires_grad()) indices.push_back(i);
  }
  return indices;
}

void DdpReducer::verify_and_broadcast() {
  if (group_.size() == 1) return;
  verify_same_on_all_ranks("ddp", group_, description_of(model_));
  for (const NamedTensor& parameter : parameters_) {
    broadcast_from_rank_0(group_, parameter.tensor, kSetup);
  }
  for (const NamedBuffer& buffer : model_.buffers()) {
    if (buffer.sync != BufferSync::local) broadcast_from_rank_0(group_, buffer.tensor, kSetup);
  }
}

void DdpReducer::make_plan(const std::vector<size_t>& order) {
  std::vector<ParameterSpec> specs;
  for (const NamedTensor& parameter : parameters_) {
    specs.push_back(
        {parameter.tensor.numel(), parameter.tensor.dtype(), parameter.tensor.device()});
  }
  plan_ = plan_buckets(specs, order, {options_.first_bucket_bytes, options_.bucket_bytes});
  planned_ = order;
  std::sort(planned_.begin(), planned_.end());
  place_gradients();
}

// Points every gradient at its place in the plan. Gradients that are already there move along.
void DdpReducer::place_gradients() {
  std::vector<std::pair<size_t, Tensor>> kept;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& leaf = parameters_[i].tensor;
    if (const Tensor gradient = leaf.grad(); gradient.defined()) {
      Tensor copy = empty(gradient.shape(), {gradient.dtype(), gradient.device()});
      kernels::copy(copy.device().type, gradient, copy);
      kept.emplace_back(i, copy);
    }
    set_grad_slot(leaf, {});
    slots_[i] = {};
  }
  flats_.clear();
  // The size does not depend on the order, so a rebuild lands in the same memory.
  if (!storage_ || storage_->bytes() != plan_.bytes) {
    storage_.reset();
    storage_ = group_.allocate(plan_.bytes, Category::bucket, parameters_.front().tensor.device());
  }
  for (size_t b = 0; b < plan_.buckets.size(); ++b) {
    const Bucket& bucket = plan_.buckets[b];
    const auto size = static_cast<int64_t>(size_of(bucket.dtype));
    Tensor flat(storage_, bucket.dtype, {static_cast<int64_t>(bucket.bytes) / size},
                static_cast<int64_t>(bucket.offset) / size);
    kernels::fill(bucket.device.type, flat, 0.0);  // the gaps between slices are reduced too
    flats_.push_back(flat);
    for (const BucketSlice& slice : bucket.slices) {
      const Tensor& leaf = parameters_[slice.parameter].tensor;
      const Tensor view(storage_, bucket.dtype, leaf.shape(),
                        static_cast<int64_t>(slice.offset) / size);
      slots_[slice.parameter] = {b, view, false};
      set_grad_slot(leaf, view);
    }
  }
  for (auto& [parameter, gradient] : kept) {
    Tensor view = slots_[parameter].view;
    if (!view.defined()) continue;  // frozen since: its gradient is gone
    kernels::copy(view.device().type, gradient, view);
    set_grad_present(parameters_[parameter].tensor, true);
  }
}

void DdpReducer::check_same_parameters() const {
  const std::vector<NamedTensor> now = model_.parameters();
  bool same = now.size() == parameters_.size();
  for (size_t i = 0; same && i < now.size(); ++i) {
    same = now[i].tensor.is_same(parameters_[i].tensor);
  }
  TENON_CHECK(same, "ddp", "the model's parameters changed after it was wrapped: it had ",
              parameters_.size(), " and has ", now.size(), ", wanted the same (wrap it again)");
}

void DdpReducer::before_forward() {
  if (!grad_enabled() || !model_.training()) return;
  check_same_parameters();
  if (const std::vector<size_t> now = trainable(); now != planned_) {
    std::vector<size_t> order = now;
    std::reverse(order.begin(), order.end());
    make_plan(order);
    rebuilt_ = backward_seen_ = false;
  } else if (!rebuilt_ && backward_seen_) {
    rebuild_in_arrival_order();
  }
  if (options_.sync_buffers && no_sync_depth_ == 0 && group_.size() > 1) sync_buffers();
}

void DdpReducer::rebuild_in_arrival_order() {
  rebuilt_ = true;
  if (group_.size() == 1) return;
  // Gradients that did not come go last, in the order of the present plan.
  std::vector<size_t> order = arrival_;
  for (const Bucket& bucket : plan_.buckets) {
    for (const BucketSlice& slice : bucket.slices) {
      if (std::find(order.begin(), order.end(), slice.parameter) == order.end()) {
        order.push_back(slice.parameter);
      }
    }
  }
  const Tensor shared = from_data(std::vector<int64_t>(order.begin(), order.end()),
                                  {static_cast<int64_t>(order.size())}, Category::other, kCpu);
  group_.broadcast(shared, 0, kSetup).wait();
  const auto* values = shared.data<int64_t>();
  make_plan(std::vector<size_t>(values, values + order.size()));
}

void DdpReducer::sync_buffers() {
  constexpr Call kBuffer{.tag = "buffer"};
  for (const NamedBuffer& buffer : model_.buffers()) {
    if (buffer.sync == BufferSync::broadcast) {
      broadcast_from_rank_0(group_, buffer.tensor, kBuffer);
    } else if (buffer.sync == BufferSync::mean) {
      group_.all_reduce(buffer.tensor.detach(), ReduceOp::mean, kBuffer).wait();
      buffer.tensor.bump_version();
    }
  }
}

void DdpReducer::begin_backward() {
  synchronizing_ = no_sync_depth_ == 0;
  arrival_.clear();
  next_ = 0;
  works_.clear();
  open_.clear();
  for (const Bucket& bucket : plan_.buckets) open_.push_back(bucket.slices.size());
  for (Slot& slot : slots_) slot.arrived = false;
}

void DdpReducer::gradient_arrived(size_t parameter) {
  Slot& slot = slots_[parameter];
  const NamedTensor& named = parameters_[parameter];
  TENON_CHECK(slot.view.defined(), "ddp", "rank ", group_.rank(), ": parameter '", named.name,
              "' got a gradient but was frozen when this forward began");
  slot.arrived = true;
  arrival_.push_back(parameter);
  if (grad_slot(named.tensor).storage() != storage_) {
    // Somebody gave the parameter another slot: its gradient moves back into the bucket.
    set_grad_slot(named.tensor, slot.view);
  }
  if (--open_[slot.bucket] == 0 && synchronizing_ && group_.size() > 1) launch_ready();
}

// Buckets go strictly in index order, so that all ranks issue the same sequence.
void DdpReducer::launch_ready() {
  while (next_ < open_.size() && open_[next_] == 0) launch(next_++);
}

void DdpReducer::launch(size_t bucket) {
  works_.push_back(group_.all_reduce(flats_[bucket], ReduceOp::mean,
                                     {.tag = "ddp", .index = static_cast<int>(bucket)}));
}

void DdpReducer::end_backward() {
  backward_seen_ = true;
  if (!synchronizing_) return;
  RankContext& context = rank_context();
  context.ring->begin(EventKind::mark, "backward_end", "ddp", 0, -1, context.step);
  finish();
}

// Launches what is left, waits, and sees to parameters without a gradient.
void DdpReducer::finish() {
  std::vector<bool> present;
  for (const NamedTensor& parameter : parameters_) {
    present.push_back(parameter.tensor.grad().defined());
  }
  fill_in_missing();
  if (group_.size() > 1) {
    while (next_ < plan_.buckets.size()) launch(next_++);
    wait_for_all();
  }
  if (options_.allow_unused) settle_unused(present);
}

// A gradient may be missing in this backward and still be there from an earlier one without
// synchronization. If there is none at all, that is an error, or it counts as zero.
void DdpReducer::fill_in_missing() {
  std::vector<std::string> missing;
  for (const size_t i : planned_) {
    const Tensor& leaf = parameters_[i].tensor;
    if (leaf.grad().defined() || !leaf.requires_grad()) continue;
    if (!options_.allow_unused) {
      missing.push_back(parameters_[i].name);
      continue;
    }
    Tensor view = slots_[i].view;
    kernels::fill(view.device().type, view, 0.0);
    set_grad_present(leaf, true);
  }
  TENON_CHECK(missing.empty(), "ddp", "rank ", group_.rank(), ": ",
              missing.size() == 1 ? "parameter " : "parameters ", list_names(missing),
              " got no gradient in this backward, and the other ranks wait for it: use it in the "
              "loss, freeze it, or set allow_unused");
}

// Parameters that no rank used keep no gradient, so that an optimizer leaves them alone.
void DdpReducer::settle_unused(const std::vector<bool>& present) {
  std::vector<int64_t> used(present.begin(), present.end());
  const Tensor map = from_data(used, {static_cast<int64_t>(used.size())}, Category::other, kCpu);
  if (group_.size() > 1) {
    group_.all_reduce(map, ReduceOp::max, {.tag = "ddp_unused"}).wait();
  }
  const auto* anywhere = map.data<int64_t>();
  for (const size_t i : planned_) {
    if (anywhere[i] == 0) set_grad_present(parameters_[i].tensor, false);
  }
}

int64_t DdpStats::comm_ns() const {
  int64_t sum = 0;
  for (const Work& work : works) sum += work.busy_ns();
  return sum;
}

void DdpReducer::wait_for_all() {
  const Stream stream = current_stream(storage_->device());
  const StreamEvent begin = record_timed_event(stream);
  for (Work& work : works_) work.wait();
  stats_ = {static_cast<int64_t>(plan_.bytes),
            std::exchange(works_, {}),
            {begin, record_timed_event(stream)}};
  storage_->bump_version();
}

void DdpReducer::sync_gradients() {
  begin_backward();
  finish();
}

}  // namespace tenon
