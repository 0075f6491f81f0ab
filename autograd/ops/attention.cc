#include "tenon/autograd/ops/attention.h"

#include <cmath>

#include "tenon/autograd/ops/detail.h"
#include "tenon/kernels/attention.h"
#include "tenon/kernels/rotary.h"

namespace tenon {
namespace {

// As it is, or a copy, so that the last dimension is dense.
Tensor dense_last(const Tensor& x) {
  const bool dense = x.dim(-1) <= 1 || x.strides()[x.ndim() - 1] == 1;
  return dense ? x.detach() : detail::raw_contiguous(x);
}

kernels::AttentionParams params_of(const AttentionOptions& options, int64_t head_dim) {
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim)));
  return {.causal = options.causal, .scale = scale};
}

void check_heads(const char* op, const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor* other : {&k, &v}) {
    check_same_device(op, q, *other);
    check_same_dtype(op, q, *other);
  }
  TENON_CHECK(q.ndim() == 4 && k.ndim() == 4 && k.shape() == v.shape() && q.dim(0) == k.dim(0) &&
                  q.dim(3) == k.dim(3) && q.dim(3) > 0 && k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0,
              op, "shapes do not fit: given q ", q.shape(), ", k ", k.shape(), ", v ", v.shape(),
              ", wanted (B, H, T, D) and twice (B, G, S, D) with H a multiple of G");
}

struct PackedHeads {
  PackedHeads(const Tensor& packed, int64_t heads, int64_t groups, int64_t head_dim)
      : q(heads_of(packed, 0, heads, head_dim)),
        k(heads_of(packed, heads, groups, head_dim)),
        v(heads_of(packed, heads + groups, groups, head_dim)) {}
  Tensor q, k, v;
};

}  // namespace

Tensor heads_of(const Tensor& packed, int64_t first, int64_t count, int64_t head_dim) {
  const Strides& strides = packed.strides();
  return packed.as_strided({packed.dim(0), count, packed.dim(1), head_dim},
                           {strides[0], head_dim, strides[1], 1}, first * head_dim);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  detail::check_floating("attention", q);
  check_heads("attention", q, k, v);
  TENON_CHECK(!options.causal || q.dim(2) <= k.dim(2), "attention",
              "more queries than keys: given ", q.dim(2), " and ", k.dim(2),
              ", wanted at least as many keys where attention is causal");
  const kernels::AttentionParams params = params_of(options, q.dim(3));
  const DeviceType device = q.device().type;
  const Tensor queries = dense_last(q), keys = dense_last(k), values = dense_last(v);
  Tensor out = empty(q.shape(), {q.dtype(), q.device()});
  Tensor log_sums = empty({q.dim(0), q.dim(1), q.dim(2)}, {compute_dtype(q.dtype()), q.device()});
  kernels::attention(device, queries, keys, values, out, log_sums, params);
  if (!needs_grad({q, k, v})) return out;
  const SavedTensor saved_q(queries, "attention", "queries"), saved_k(keys, "attention", "keys"),
      saved_v(values, "attention", "values"), saved_out(out, "attention", "output");
  return record("attention", out, {q, k, v}, [=](const Tensor& grad, GradSinks& into) {
    const Tensor kept_q = saved_q.unpack(), kept_k = saved_k.unpack();
    const TensorOptions like{kept_q.dtype(), kept_q.device()};
    Tensor dq = empty(kept_q.shape(), like), dk = empty(kept_k.shape(), like),
           dv = empty(kept_k.shape(), like);
    kernels::attention_backward(device, kept_q, kept_k, saved_v.unpack(), saved_out.unpack(),
                                log_sums, dense_last(grad), dq, dk, dv, params);
    into[0].add(dq);
    into[1].add(dk);
    into[2].add(dv);
  });
}

Tensor self_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                      const AttentionOptions& options) {
  detail::check_floating("self_attention", qkv);
  TENON_CHECK(heads > 0 && kv_heads > 0 && heads % kv_heads == 0, "self_attention",
              "wrong heads: given ", heads, " of queries and ", kv_heads,
              " of keys, wanted a multiple of the latter");
  const int64_t all = heads + 2 * kv_heads;
  TENON_CHECK(qkv.ndim() == 3 && qkv.dim(2) > 0 && qkv.dim(2) % all == 0, "self_attention",
              "wrong shape: given ", qkv.shape(), ", wanted (B, T, ", all, " D)");
  const int64_t head_dim = qkv.dim(2) / all, batch = qkv.dim(0), length = qkv.dim(1);
  const kernels::AttentionParams params = params_of(options, head_dim);
  const DeviceType device = qkv.device().type;
  const Tensor packed = dense_last(qkv);
  const PackedHeads in(packed, heads, kv_heads, head_dim);
  const Tensor out = empty({batch, length, heads * head_dim}, {qkv.dtype(), qkv.device()});
  Tensor out_heads = heads_of(out, 0, heads, head_dim);
  Tensor log_sums = empty({batch, heads, length}, {compute_dtype(qkv.dtype()), qkv.device()});
  kernels::attention(device, in.q, in.k, in.v, out_heads, log_sums, params);
  if (!needs_grad({qkv})) return out;
  const SavedTensor saved(packed, "self_attention", "input"),
      saved_out(out, "self_attention", "output");
  return record("self_attention", out, {qkv}, [=](const Tensor& grad, GradSinks& into) {
    const Tensor kept = saved.unpack(), dense = dense_last(grad);
    const PackedHeads from(kept, heads, kv_heads, head_dim);
    into[0].write([&](Tensor& target, bool accumulate) {
      const bool direct = !accumulate && target.strides()[2] == 1;
      const Tensor fresh = direct ? target : empty(kept.shape(), {kept.dtype(), kept.device()});
      PackedHeads to(fresh, heads, kv_heads, head_dim);
      kernels::attention_backward(device, from.q, from.k, from.v,
                                  heads_of(saved_out.unpack(), 0, heads, head_dim), log_sums,
                                  heads_of(dense, 0, heads, head_dim), to.q, to.k, to.v, params);
      if (!direct) detail::put(fresh, target, accumulate);
    });
  });
}

RotaryTable rotary_table(int64_t positions, int64_t head_dim, double base, DType dtype,
                         Device device) {
  TENON_CHECK(positions > 0 && head_dim > 0 && head_dim % 2 == 0 && base > 0, "rotary",
              "wrong table: given ", positions, " positions, heads of ", head_dim, ", base ", base,
              ", wanted positive numbers and an even size");
  const int64_t half = head_dim / 2;
  std::vector<double> cosines, sines;
  for (int64_t position = 0; position < positions; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      // In f32, as the models that people load were trained with.
      const float frequency =
          1.0f / std::pow(static_cast<float>(base),
                          static_cast<float>(2 * i) / static_cast<float>(head_dim));
      const float angle = static_cast<float>(position) * frequency;
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  const TensorOptions options{compute_dtype(dtype), device};
  return {from_vector(cosines, {positions, half}, options),
          from_vector(sines, {positions, half}, options)};
}

Tensor rotary(const Tensor& x, const RotaryTable& table, int64_t heads, int64_t start) {
  detail::check_floating("rotary", x);
  check_same_device("rotary", x, table.cosines);
  const int64_t half = table.cosines.dim(1), positions = table.cosines.dim(0);
  TENON_CHECK(
      x.ndim() == 3 && x.dim(2) % (2 * half) == 0 && heads >= 0 && heads * 2 * half <= x.dim(2),
      "rotary", "wrong shape: given ", x.shape(), " and ", heads, " heads of ", 2 * half,
      ", wanted (B, T, N D) and at most N heads");
  TENON_CHECK(start >= 0 && start + x.dim(1) <= positions, "rotary", "too long: given positions ",
              start, " to ", start + x.dim(1), ", the table has ", positions);
  TENON_CHECK(table.cosines.dtype() == compute_dtype(x.dtype()), "rotary",
              "wrong dtype of the table: given ", table.cosines.dtype(), " for ", describe(x));
  const Tensor cosines = detail::raw_narrow(table.cosines, 0, start, x.dim(1)),
               sines = detail::raw_narrow(table.sines, 0, start, x.dim(1));
  const auto turn = [=](const Tensor& from, bool inverse) {
    const Tensor source = detail::raw_contiguous(from);
    const Shape by_head{from.dim(0), from.dim(1), from.dim(2) / (2 * half), 2 * half};
    const Tensor result = empty(from.shape(), {from.dtype(), from.device()});
    Tensor view = result.alias(0, by_head);
    kernels::rotary(from.device().type, source.alias(0, by_head), cosines, sines, view,
                    {.heads = heads, .inverse = inverse});
    return result;
  };
  return record("rotary", turn(x, false), {x}, [=](const Tensor& grad, GradSinks& into) {
    if (into[0].needed()) into[0].add(turn(grad, true));
  });
}

}  // namespace tenon
