#include "tenon/tools/mpi_peer.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace tenon::tools {
namespace {

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i64:
      return MPI_INT64_T;
    default:
      throw Error(str("[compare-mpi] MPI has no ", dtype, ", wanted float, double or int64"),
                  ErrorKind::usage);
  }
}

// MPI has no mean: its sum does a little less.
MPI_Op mpi_op(ReduceOp op) {
  return op == ReduceOp::max ? MPI_MAX : op == ReduceOp::min ? MPI_MIN : MPI_SUM;
}

void check(int code) { TENON_CHECK(code == MPI_SUCCESS, "compare-mpi", "MPI failed"); }

}  // namespace

struct MpiPeer::Impl {
  bool scatter;
  MPI_Datatype type;
  MPI_Op op;
  int ranks = 1;
};

MpiPeer::MpiPeer(const std::string& collective, DType dtype, ReduceOp op) {
  if (collective != "all_reduce" && collective != "reduce_scatter") {
    throw Error(
        str("[compare-mpi] no comparison of ", collective, ", wanted all_reduce or reduce_scatter"),
        ErrorKind::usage);
  }
  impl_ = std::make_unique<Impl>(Impl{collective == "reduce_scatter", mpi_type(dtype), mpi_op(op)});
  check(MPI_Comm_size(MPI_COMM_WORLD, &impl_->ranks));
}

MpiPeer::~MpiPeer() = default;

void MpiPeer::run_in_place(const Tensor& whole) {
  const int count = static_cast<int>(whole.numel());
  check(impl_->scatter
            ? MPI_Reduce_scatter_block(MPI_IN_PLACE, whole.raw_data(), count / impl_->ranks,
                                       impl_->type, impl_->op, MPI_COMM_WORLD)
            : MPI_Allreduce(MPI_IN_PLACE, whole.raw_data(), count, impl_->type, impl_->op,
                            MPI_COMM_WORLD));
}

void MpiPeer::run(const Tensor& output, const Tensor& whole) {
  const int count = static_cast<int>(whole.numel());
  check(impl_->scatter
            ? MPI_Reduce_scatter_block(whole.raw_data(), output.raw_data(), count / impl_->ranks,
                                       impl_->type, impl_->op, MPI_COMM_WORLD)
            : MPI_Allreduce(whole.raw_data(), output.raw_data(), count, impl_->type, impl_->op,
                            MPI_COMM_WORLD));
}

}  // namespace tenon::tools
