#include "tenon/kernels/optimizer_lists.h"

#include "tenon/core/check.h"

namespace tenon::kernels {

void check_lists(const char* op, const TensorList& parameters, const TensorList& gradients,
                 std::initializer_list<const TensorList*> states) {
  TENON_CHECK(parameters.size() == gradients.size(), op,
              "as many gradients as parameters wanted: given ", gradients.size(), " for ",
              parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    TENON_CHECK(gradients[i].numel() == parameters[i].numel() && parameters[i].is_contiguous() &&
                    gradients[i].is_contiguous(),
                op, "wanted contiguous tensors of one shape: given parameter ",
                describe(parameters[i]), " and gradient ", describe(gradients[i]));
  }
  for (const TensorList* list : states) {
    TENON_CHECK(list->size() == parameters.size(), op,
                "as many states as parameters wanted: given ", list->size(), " for ",
                parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& state = (*list)[i];
      TENON_CHECK(state.numel() == parameters[i].numel() && state.is_contiguous() &&
                      state.dtype() == compute_dtype(parameters[i].dtype()),
                  op, "wanted a contiguous state in the compute dtype: given ", describe(state),
                  " for parameter ", describe(parameters[i]));
    }
  }
}

}  // namespace tenon::kernels
