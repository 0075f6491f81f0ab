// 2-d pooling. An image is planes of H x W cells, each cell `width` values in a row: channels-last
// images are N planes with C values a cell, row-major ones N C planes with one. The inner loops run
// over the values of a cell.
#include "tenon/kernels/pool.h"

#include <algorithm>
#include <limits>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/factory.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/conv_layout.h"
#include "tenon/kernels/copy.h"

namespace tenon::kernels {
namespace {

constexpr int64_t kValues = 64;  // values of a cell that are worked on at a time

struct Planes {
  int64_t planes, height, width, values;  // of x
  int64_t out_height, out_width;          // of y
  int64_t plane_size() const { return height * width * values; }
  int64_t out_plane_size() const { return out_height * out_width * values; }
};

Planes planes_of(const Tensor& x, const Tensor& y, bool channels_last) {
  const int64_t n = x.dim(0), c = x.dim(1);
  return {channels_last ? n : n * c, x.dim(2), x.dim(3), channels_last ? c : 1, y.dim(2), y.dim(3)};
}

// The part of a window that lies inside the image.
struct Window {
  int64_t row0, row1, column0, column1;  // in the image
  int64_t top, left;                     // of the whole window, may be negative

  Window(const Planes& p, const PoolParams& params, int64_t out_row, int64_t out_column)
      : top(out_row * params.stride[0] - params.padding[0]),
        left(out_column * params.stride[1] - params.padding[1]) {
    row0 = std::max<int64_t>(top, 0);
    row1 = std::min(top + params.kernel[0], p.height);
    column0 = std::max<int64_t>(left, 0);
    column1 = std::min(left + params.kernel[1], p.width);
  }
  int64_t number(int64_t row, int64_t column, const PoolParams& params) const {
    return (row - top) * params.kernel[1] + column - left;
  }
};

// Both tensors in one of the two layouts: `as_like` decides, copies are made where needed.
bool use_channels_last(const Tensor& like) {
  return !like.is_contiguous() && is_channels_last(like);
}

Tensor in_layout(const Tensor& tensor, bool channels_last) {
  return channels_last ? to_channels_last(tensor, tensor.dtype())
                       : to_row_major(tensor, tensor.dtype());
}

Destination destination_in_layout(Tensor& tensor, bool channels_last) {
  return channels_last ? channels_last_destination(tensor, tensor.dtype(), false)
                       : row_major_destination(tensor, tensor.dtype(), false, false);
}

// Calls body(plane, out_row) for all rows of all output planes, in parallel.
template <class Body>
void for_each_output_row(const Planes& p, int64_t bytes, Body&& body) {
  parallel_for(p.planes * p.out_height, bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / p.out_height, i % p.out_height);
  });
}

template <class T, class Index>
void max_of_window(const Planes& p, const PoolParams& params, const Window& window, const T* plane,
                   T* out, Index* place) {
  using C = Compute<T>;
  for (int64_t begin = 0; begin < p.values; begin += kValues) {
    const int64_t n = std::min(kValues, p.values - begin);
    C best[kValues];
    int32_t where[kValues];
    bool first = true;
    for (int64_t row = window.row0; row < window.row1; ++row) {
      for (int64_t column = window.column0; column < window.column1; ++column) {
        const T* cell = plane + (row * p.width + column) * p.values + begin;
        const auto number = static_cast<int32_t>(window.number(row, column, params));
        if (first) {
          for (int64_t i = 0; i < n; ++i) best[i] = static_cast<C>(cell[i]), where[i] = number;
          first = false;
          continue;
        }
        for (int64_t i = 0; i < n; ++i) {
          const C value = static_cast<C>(cell[i]);
          const bool larger = (value > best[i]) | ((value != value) & (best[i] == best[i]));
          best[i] = larger ? value : best[i];
          where[i] = larger ? number : where[i];
        }
      }
    }
    for (int64_t i = 0; i < n; ++i) out[begin + i] = static_cast<T>(best[i]);
    for (int64_t i = 0; i < n; ++i) place[begin + i] = static_cast<Index>(where[i]);
  }
}

template <class T, class Index>
void max_forward(const Tensor& x, Tensor& y, Tensor& window, const PoolParams& params) {
  const bool last = use_channels_last(x);
  const Tensor source = in_layout(x, last);
  Destination values = destination_in_layout(y, last);
  Destination places = destination_in_layout(window, last);
  const Planes p = planes_of(x, y, last);
  const T* const from = source.data<T>();
  T* const to = values.buffer().data<T>();
  Index* const place = places.buffer().data<Index>();
  for_each_output_row(p, static_cast<int64_t>(x.nbytes()), [&](int64_t plane, int64_t row) {
    const int64_t out = plane * p.out_plane_size() + row * p.out_width * p.values;
    for (int64_t column = 0; column < p.out_width; ++column) {
      const Window area(p, params, row, column);
      max_of_window(p, params, area, from + plane * p.plane_size(), to + out + column * p.values,
                    place + out + column * p.values);
    }
  });
  values.finish();
  places.finish();
}

// Windows that neither overlap nor leave cells between them: each cell of a window can be assigned,
// and only the rim that no window covers must be cleared.
bool windows_are_disjoint(const PoolParams& params) {
  return params.kernel[0] <= params.stride[0] && params.kernel[1] <= params.stride[1];
}

template <class T>
void clear_rows(const Planes& p, T* plane, int64_t begin, int64_t end) {
  if (begin < end) {
    std::fill(plane + begin * p.width * p.values, plane + end * p.width * p.values, T(0.0f));
  }
}

// Gradients of the disjoint windows of one output row; clears what they do not cover in its rows.
template <class T, class Index>
void scatter_disjoint_row(const Planes& p, const PoolParams& params, int64_t row, const T* dy,
                          const Index* place, T* plane) {
  const int64_t top = row * params.stride[0] - params.padding[0];
  const int64_t next =
      row + 1 == p.out_height ? p.height : std::min(top + params.stride[0], p.height);
  const bool tiles = params.kernel == params.stride && params.padding[1] == 0;
  const int64_t covered = tiles ? p.out_width * params.stride[1] : 0;
  for (int64_t y = std::max<int64_t>(row == 0 ? 0 : top, 0); y < next; ++y) {
    T* const cells = plane + y * p.width * p.values;
    const bool inside = tiles && y >= top && y < top + params.kernel[0];
    std::fill(cells + (inside ? std::min(covered, p.width) : 0) * p.values,
              cells + p.width * p.values, T(0.0f));
  }
  for (int64_t column = 0; column < p.out_width; ++column) {
    const Window window(p, params, row, column);
    const T* const gradient = dy + column * p.values;
    const Index* const chosen = place + column * p.values;
    for (int64_t y = window.row0; y < window.row1; ++y) {
      for (int64_t x = window.column0; x < window.column1; ++x) {
        T* const cell = plane + (y * p.width + x) * p.values;
        const auto number = static_cast<Index>(window.number(y, x, params));
        for (int64_t i = 0; i < p.values; ++i) {
          cell[i] = chosen[i] == number ? gradient[i] : T(0.0f);
        }
      }
    }
  }
}

// Overlapping windows: add up plane by plane in the compute type.
template <class T, class Index>
void scatter_plane(const Planes& p, const PoolParams& params, const T* dy, const Index* place,
                   Compute<T>* plane) {
  std::fill(plane, plane + p.plane_size(), Compute<T>(0));
  for (int64_t row = 0; row < p.out_height; ++row) {
    for (int64_t column = 0; column < p.out_width; ++column) {
      const int64_t out = (row * p.out_width + column) * p.values;
      const int64_t top = row * params.stride[0] - params.padding[0];
      const int64_t left = column * params.stride[1] - params.padding[1];
      for (int64_t i = 0; i < p.values; ++i) {
        const auto number = static_cast<int64_t>(place[out + i]);
        const int64_t y = top + number / params.kernel[1], x = left + number % params.kernel[1];
        plane[(y * p.width + x) * p.values + i] += static_cast<Compute<T>>(dy[out + i]);
      }
    }
  }
}

// Runs add(plane number, plane of the compute type) for each plane of dx and stores it.
template <class T, class Add>
void accumulate_planes(const Planes& p, T* to, Add&& add) {
  using C = Compute<T>;
  parallel_for(p.planes, p.planes * p.plane_size() * 4, [&](int64_t begin, int64_t end) {
    const Tensor scratch =
        empty({std::is_same_v<T, C> ? 0 : p.plane_size()}, {dtype_of<C>, kCpu, Category::other});
    for (int64_t plane = begin; plane < end; ++plane) {
      T* const target = to + plane * p.plane_size();
      if constexpr (std::is_same_v<T, C>) {
        add(plane, target);
      } else {
        C* const sum = scratch.data<C>();
        add(plane, sum);
        for (int64_t i = 0; i < p.plane_size(); ++i) target[i] = static_cast<T>(sum[i]);
      }
    }
  });
}

template <class T, class Index>
void max_backward(const Tensor& dy, const Tensor& window, Tensor& dx, const PoolParams& params) {
  const bool last = use_channels_last(dx);
  const Tensor gradient = in_layout(dy, last), places = in_layout(window, last);
  Destination result = destination_in_layout(dx, last);
  const Planes p = planes_of(dx, dy, last);
  const T* const from = gradient.data<T>();
  const Index* const place = places.data<Index>();
  T* const to = result.buffer().data<T>();
  if (windows_are_disjoint(params)) {
    for_each_output_row(p, static_cast<int64_t>(dx.nbytes()), [&](int64_t plane, int64_t row) {
      const int64_t out = plane * p.out_plane_size() + row * p.out_width * p.values;
      scatter_disjoint_row(p, params, row, from + out, place + out, to + plane * p.plane_size());
    });
  } else {
    accumulate_planes(p, to, [&](int64_t plane, Compute<T>* sum) {
      const int64_t out = plane * p.out_plane_size();
      scatter_plane(p, params, from + out, place + out, sum);
    });
  }
  result.finish();
}

// Calls body(T) or body(T, Index) with the types of the tensors.
template <class Body>
void dispatch_pool(const char* op, DType dtype, DType index, Body&& body) {
  dispatch_floating(dtype, op, [&]<class T>() {
    dispatch_types<uint8_t, int32_t>(index, op,
                                     [&]<class Index>() { body.template operator()<T, Index>(); });
  });
}

void max_pool2d_cpu(const Tensor& x, Tensor& y, Tensor& window, const PoolParams& params) {
  if (y.numel() == 0) return;
  dispatch_pool("max_pool2d", x.dtype(), window.dtype(),
                [&]<class T, class Index>() { max_forward<T, Index>(x, y, window, params); });
}

void max_pool2d_backward_cpu(const Tensor& dy, const Tensor& window, Tensor& dx,
                             const PoolParams& params) {
  if (dx.numel() == 0) return;
  dispatch_pool("max_pool2d_backward", dy.dtype(), window.dtype(),
                [&]<class T, class Index>() { max_backward<T, Index>(dy, window, dx, params); });
}

template <class T>
void average_forward(const Tensor& x, Tensor& y, const PoolParams& params) {
  using C = Compute<T>;
  const bool last = use_channels_last(x);
  const Tensor source = in_layout(x, last);
  Destination result = destination_in_layout(y, last);
  const Planes p = planes_of(x, y, last);
  const T* const from = source.data<T>();
  T* const to = result.buffer().data<T>();
  const C share = C(1) / static_cast<C>(params.kernel[0] * params.kernel[1]);
  for_each_output_row(p, static_cast<int64_t>(x.nbytes()), [&](int64_t plane, int64_t row) {
    const T* const image = from + plane * p.plane_size();
    T* out = to + plane * p.out_plane_size() + row * p.out_width * p.values;
    for (int64_t column = 0; column < p.out_width; ++column, out += p.values) {
      const Window window(p, params, row, column);
      for (int64_t begin = 0; begin < p.values; begin += kValues) {
        const int64_t n = std::min(kValues, p.values - begin);
        C sum[kValues] = {};
        for (int64_t r = window.row0; r < window.row1; ++r) {
          for (int64_t c = window.column0; c < window.column1; ++c) {
            const T* const cell = image + (r * p.width + c) * p.values + begin;
            for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<C>(cell[i]);
          }
        }
        for (int64_t i = 0; i < n; ++i) out[begin + i] = static_cast<T>(sum[i] * share);
      }
    }
  });
  result.finish();
}

template <class T>
void average_backward(const Tensor& dy, Tensor& dx, const PoolParams& params) {
  using C = Compute<T>;
  const bool last = use_channels_last(dx);
  const Tensor gradient = in_layout(dy, last);
  Destination result = destination_in_layout(dx, last);
  const Planes p = planes_of(dx, dy, last);
  const T* const from = gradient.data<T>();
  const C share = C(1) / static_cast<C>(params.kernel[0] * params.kernel[1]);
  accumulate_planes(p, result.buffer().data<T>(), [&](int64_t plane, C* sum) {
    std::fill(sum, sum + p.plane_size(), C(0));
    const T* out = from + plane * p.out_plane_size();
    for (int64_t row = 0; row < p.out_height; ++row) {
      for (int64_t column = 0; column < p.out_width; ++column, out += p.values) {
        const Window window(p, params, row, column);
        for (int64_t r = window.row0; r < window.row1; ++r) {
          for (int64_t c = window.column0; c < window.column1; ++c) {
            C* const cell = sum + (r * p.width + c) * p.values;
            for (int64_t i = 0; i < p.values; ++i) cell[i] += static_cast<C>(out[i]) * share;
          }
        }
      }
    }
  });
  result.finish();
}

void avg_pool2d_cpu(const Tensor& x, Tensor& y, const PoolParams& params) {
  if (y.numel() == 0) return;
  dispatch_floating(x.dtype(), "avg_pool2d", [&]<class T>() { average_forward<T>(x, y, params); });
}

void avg_pool2d_backward_cpu(const Tensor& dy, Tensor& dx, const PoolParams& params) {
  if (dx.numel() == 0) return;
  dispatch_floating(dy.dtype(), "avg_pool2d_backward",
                    [&]<class T>() { average_backward<T>(dy, dx, params); });
}

[[maybe_unused]] const bool filled =
    max_pool2d.set(DeviceType::cpu, max_pool2d_cpu) &&
    max_pool2d_backward.set(DeviceType::cpu, max_pool2d_backward_cpu) &&
    avg_pool2d.set(DeviceType::cpu, avg_pool2d_cpu) &&
    avg_pool2d_backward.set(DeviceType::cpu, avg_pool2d_backward_cpu);

}  // namespace
}  // namespace tenon::kernels
