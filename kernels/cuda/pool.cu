// 2-d pooling of images of any layout. A thread makes one output element, or V neighbouring
// channels of a channels-last image: backward gathers from the windows that hold the element, in
// the order in which the CPU adds them up.
#include "tenon/kernels/pool.h"

#include <algorithm>
#include <limits>

#include "tenon/core/cuda/context.h"
#include "tenon/kernels/cuda/element.h"
#include "tenon/kernels/cuda/walk.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 14;

struct ImageStrides {
  explicit ImageStrides(const Tensor& image)
      : n(image.strides()[0]),
        c(image.strides()[1]),
        row(image.strides()[2]),
        column(image.strides()[3]) {}
  __device__ int64_t plane(int64_t image, int64_t channel) const { return image * n + channel * c; }
  __device__ int64_t cell(int64_t y, int64_t x) const { return y * row + x * column; }

  int64_t n, c, row, column;
};

struct Cell {
  int64_t image, channel, row, column;
};

// The cells of an image tensor, in the order of its memory, in groups of V channels.
struct Cells {
  Cells(const Tensor& image, int vector)
      : last(image.strides()[1] < image.strides()[3] || vector > 1), group(vector) {
    const int64_t channels = image.dim(1) / vector, height = image.dim(2), width = image.dim(3);
    const int64_t sizes[3] = {last ? height : channels, last ? width : height,
                              last ? channels : width};
    for (int i = 0; i < 3; ++i) {
      size[i] = sizes[i];
      divisor[i] = Divisor(sizes[i]);
    }
    count = image.numel() / vector;
  }
  __device__ Cell at(int64_t index) const {
    int64_t place[3];
    for (int i = 2; i >= 0; --i) {
      const int64_t next = divisor[i].divide(index);
      place[i] = index - next * size[i];
      index = next;
    }
    if (last) return {index, place[2] * group, place[0], place[1]};
    return {index, place[0], place[1], place[2]};
  }

  bool last;  // the channels are innermost
  int group;
  int64_t count;
  int64_t size[3];
  Divisor divisor[3];
};

struct PoolJob {
  // The cells of `out` are what threads make; x is the larger image, y the pooled one.
  PoolJob(const Tensor& out, const Tensor& x, const Tensor& y, const PoolParams& p, int vector)
      : cells(out, vector),
        x_strides(x),
        y_strides(y),
        height(x.dim(2)),
        width(x.dim(3)),
        out_height(y.dim(2)),
        out_width(y.dim(3)) {
    for (size_t i = 0; i < 2; ++i) {
      kernel[i] = p.kernel[i];
      stride[i] = p.stride[i];
      padding[i] = p.padding[i];
    }
  }

  // body(row, column, number) for the cells of x in the window of an output cell.
  template <class Body>
  __device__ void for_each_in_window(const Cell& out, const Body& body) const {
    const int64_t top = out.row * stride[0] - padding[0];
    const int64_t left = out.column * stride[1] - padding[1];
    const int64_t bottom = ::min(top + kernel[0], height), right = ::min(left + kernel[1], width);
    for (int64_t row = ::max(top, int64_t{0}); row < bottom; ++row) {
      for (int64_t column = ::max(left, int64_t{0}); column < right; ++column) {
        body(row, column, static_cast<int>((row - top) * kernel[1] + column - left));
      }
    }
  }
  // body(row, column, number) for the output cells whose windows hold a cell of x, as number.
  template <class Body>
  __device__ void for_each_window(const Cell& in, const Body& body) const {
    const int64_t y = in.row + padding[0], x = in.column + padding[1];
    for (int64_t row = first_window(y, 0); row < out_height && row * stride[0] <= y; ++row) {
      for (int64_t column = first_window(x, 1); column < out_width && column * stride[1] <= x;
           ++column) {
        body(row, column,
             static_cast<int>((y - row * stride[0]) * kernel[1] + x - column * stride[1]));
      }
    }
  }
  __device__ int64_t first_window(int64_t place, int axis) const {
    const int64_t before = place - kernel[axis];
    return before < 0 ? 0 : static_cast<uint32_t>(before) / static_cast<uint32_t>(stride[axis]) + 1;
  }

  Cells cells;
  ImageStrides x_strides, y_strides;
  int64_t height, width, out_height, out_width;
  int64_t kernel[2], stride[2], padding[2];
};

template <class Body>
__device__ void for_each_cell(const PoolJob& job, const Body& body) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < job.cells.count;
       i += step) {
    body(job.cells.at(i));
  }
}

template <class T, class Index, int V>
__global__ void __launch_bounds__(kThreads)
    max_pool(const T* x, T* y, Index* window, ImageStrides window_strides, PoolJob job) {
  using C = Compute<T>;
  for_each_cell(job, [&](const Cell& cell) {
    C best[V];
    int place[V];
    for (int j = 0; j < V; ++j) best[j] = -std::numeric_limits<C>::infinity(), place[j] = -1;
    const T* const plane = x + job.x_strides.plane(cell.image, cell.channel);
    job.for_each_in_window(cell, [&](int64_t row, int64_t column, int number) {
      const Packed<T, V> loaded = load_packed<V>(plane + job.x_strides.cell(row, column));
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C value = static_cast<C>(loaded.value[j]);
        const bool wins = value > best[j] || (value != value && best[j] == best[j]);
        if (!wins && place[j] >= 0) continue;
        best[j] = value;
        place[j] = number;
      }
    });
    Packed<T, V> values;
    Packed<Index, V> places;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      values.value[j] = static_cast<T>(best[j]);
      places.value[j] = static_cast<Index>(place[j]);
    }
    store_packed(y + job.y_strides.plane(cell.image, cell.channel) +
                     job.y_strides.cell(cell.row, cell.column),
                 values);
    store_packed(window + window_strides.plane(cell.image, cell.channel) +
                     window_strides.cell(cell.row, cell.column),
                 places);
  });
}

template <class T, class Index, int V>
__global__ void __launch_bounds__(kThreads)
    max_pool_backward(const T* dy, const Index* window, ImageStrides window_strides, T* dx,
                      PoolJob job) {
  using C = Compute<T>;
  for_each_cell(job, [&](const Cell& cell) {
    C sum[V] = {};
    const T* const gradients = dy + job.y_strides.plane(cell.image, cell.channel);
    const Index* const places = window + window_strides.plane(cell.image, cell.channel);
    job.for_each_window(cell, [&](int64_t row, int64_t column, int number) {
      const Packed<Index, V> chosen = load_packed<V>(places + window_strides.cell(row, column));
      const Packed<T, V> gradient = load_packed<V>(gradients + job.y_strides.cell(row, column));
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (static_cast<int>(chosen.value[j]) == number)
          sum[j] += static_cast<C>(gradient.value[j]);
      }
    });
    Packed<T, V> result;
#pragma unroll
    for (int j = 0; j < V; ++j) result.value[j] = static_cast<T>(sum[j]);
    store_packed(dx + job.x_strides.plane(cell.image, cell.channel) +
                     job.x_strides.cell(cell.row, cell.column),
                 result);
  });
}

// Forward: y from x; backward: dx (out) from dy (in).
template <class T, int V, bool backward>
__global__ void __launch_bounds__(kThreads)
    average_pool(const T* in, T* out, Compute<T> share, PoolJob job) {
  using C = Compute<T>;
  const ImageStrides& in_strides = backward ? job.y_strides : job.x_strides;
  const ImageStrides& out_strides = backward ? job.x_strides : job.y_strides;
  for_each_cell(job, [&](const Cell& cell) {
    C sum[V] = {};
    const T* const plane = in + in_strides.plane(cell.image, cell.channel);
    const auto add = [&](int64_t row, int64_t column, int) {
      const Packed<T, V> loaded = load_packed<V>(plane + in_strides.cell(row, column));
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C value = static_cast<C>(loaded.value[j]);
        sum[j] += backward ? value * share : value;
      }
    };
    if constexpr (backward) {
      job.for_each_window(cell, add);
    } else {
      job.for_each_in_window(cell, add);
    }
    Packed<T, V> result;
#pragma unroll
    for (int j = 0; j < V; ++j)
      result.value[j] = static_cast<T>(backward ? sum[j] : sum[j] * share);
    store_packed(
        out + out_strides.plane(cell.image, cell.channel) + out_strides.cell(cell.row, cell.column),
        result);
  });
}

// Groups of `vector` channels are aligned groups of memory.
bool packs(std::initializer_list<const Tensor*> images, int64_t vector) {
  for (const Tensor* image : images) {
    const Strides& strides = image->strides();
    if (!is_aligned(*image) || image->dim(1) % vector != 0 || strides[1] != 1) return false;
    for (const int axis : {0, 2, 3}) {
      if (image->dim(axis) > 1 && strides[axis] % vector != 0) return false;
    }
  }
  return true;
}

dim3 grid_of(const PoolJob& job) {
  return dim3(
      static_cast<unsigned>(std::min((job.cells.count + kThreads - 1) / kThreads, kMaxBlocks)));
}

// body<T, Index, V>(): groups of channels only with the indices of ordinary windows.
template <class Body>
void dispatch_max(const char* op, const Tensor& x, const Tensor& y, const Tensor& window,
                  const Body& body) {
  dispatch_floating(x.dtype(), op, [&]<class T>() {
    if (window.dtype() == DType::i32) return body.template operator()<T, int32_t, 1>();
    with_vector<T>(packs({&x, &y, &window}, kPacked<T>),
                   [&]<int V>() { body.template operator()<T, uint8_t, V>(); });
  });
}

void max_pool2d_cuda(const Tensor& x, Tensor& y, Tensor& window, const PoolParams& params) {
  if (y.numel() == 0) return;
  dispatch_max("max_pool2d", x, y, window, [&]<class T, class Index, int V>() {
    const PoolJob job(y, x, y, params, V);
    simt::launch("max_pool2d", max_pool<T, Index, V>, grid_of(job), dim3(kThreads), 0,
                 tenon::cuda::stream_of(y), x.data<T>(), y.data<T>(), window.data<Index>(),
                 ImageStrides(window), job);
  });
}

void max_pool2d_backward_cuda(const Tensor& dy, const Tensor& window, Tensor& dx,
                              const PoolParams& params) {
  if (dx.numel() == 0) return;
  dispatch_max("max_pool2d_backward", dx, dy, window, [&]<class T, class Index, int V>() {
    const PoolJob job(dx, dx, dy, params, V);
    simt::launch("max_pool2d_backward", max_pool_backward<T, Index, V>, grid_of(job),
                 dim3(kThreads), 0, tenon::cuda::stream_of(dx), dy.data<T>(), window.data<Index>(),
                 ImageStrides(window), dx.data<T>(), job);
  });
}

template <bool backward>
void average(const char* op, const Tensor& in, Tensor& out, const PoolParams& params) {
  if (out.numel() == 0) return;
  const Tensor& x = backward ? out : in;
  const Tensor& y = backward ? in : out;
  dispatch_floating(in.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    const C share = C(1) / static_cast<C>(params.kernel[0] * params.kernel[1]);
    with_vector<T>(packs({&in, &out}, kPacked<T>), [&]<int V>() {
      const PoolJob job(out, x, y, params, V);
      simt::launch(op, average_pool<T, V, backward>, grid_of(job), dim3(kThreads), 0,
                   tenon::cuda::stream_of(out), in.data<T>(), out.data<T>(), share, job);
    });
  });
}

void avg_pool2d_cuda(const Tensor& x, Tensor& y, const PoolParams& params) {
  average<false>("avg_pool2d", x, y, params);
}
void avg_pool2d_backward_cuda(const Tensor& dy, Tensor& dx, const PoolParams& params) {
  average<true>("avg_pool2d_backward", dy, dx, params);
}

[[maybe_unused]] const bool registered =
    max_pool2d.set(DeviceType::cuda, max_pool2d_cuda) &&
    max_pool2d_backward.set(DeviceType::cuda, max_pool2d_backward_cuda) &&
    avg_pool2d.set(DeviceType::cuda, avg_pool2d_cuda) &&
    avg_pool2d_backward.set(DeviceType::cuda, avg_pool2d_backward_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
