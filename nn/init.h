// Initial values of parameters, in place. The numbers come from the rank's `init` generator, which
// is the same on every rank, so that models built on every rank are equal.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon::nn::init {

// The number that keeps variances: inputs of each output, or outputs of each input. For a weight
// (outputs, inputs, kernel…).
enum class Fan { in, out };
int64_t fan_of(const Tensor& weight, Fan fan);

void uniform_(const Tensor& x, double low = 0, double high = 1);
void normal_(const Tensor& x, double mean = 0, double stddev = 1);
// Normal, drawn again outside [low, high].
void trunc_normal_(const Tensor& x, double mean = 0, double stddev = 1, double low = -2,
                   double high = 2);
void constant_(const Tensor& x, double value);
// He et al. 2015 for leaky_relu of slope `a` (0: relu): variance 2 / ((1 + a^2) fan).
void kaiming_uniform_(const Tensor& weight, double a = 0, Fan fan = Fan::in);
void kaiming_normal_(const Tensor& weight, double a = 0, Fan fan = Fan::in);
// Glorot and Bengio 2010: variance 2 gain^2 / (fan in + fan out).
void xavier_uniform_(const Tensor& weight, double gain = 1);
void xavier_normal_(const Tensor& weight, double gain = 1);

}  // namespace tenon::nn::init
