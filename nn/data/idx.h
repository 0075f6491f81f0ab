// Files of the IDX format (MNIST, Fashion-MNIST), plain or gzip-compressed: reading trusts nothing.
// Every Error is bad_data and names the file, what was found and what was wanted.
#pragma once

#include <string>

#include "tenon/core/tensor.h"

namespace tenon {

// An array of unsigned bytes with `dims` dimensions, as u8.
Tensor read_idx(const std::string& path, int dims);

}  // namespace tenon
