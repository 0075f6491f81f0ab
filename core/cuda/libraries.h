// The libraries that the plug-in uses, for the line at start-up; each file that uses one adds it.
#pragma once

#include <string>

namespace tenon::cuda {

// `version` is asked when somebody wants to know, for example "13.0.2".
bool add_library(const char* name, std::string (*version)());

// "cuBLAS 13.0.2, cuDNN 9.13.0".
std::string libraries();

// 13000 -> "13.0".
std::string cuda_version(int number);

}  // namespace tenon::cuda
