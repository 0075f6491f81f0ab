// Weights under the names that Hugging Face's transformers gives them, for safetensors files of
// GPT-2 and Llama. GPT-2 keeps its matrices as (inputs, outputs); Llama's queries, keys and values,
// and the two halves of its MLP, are matrices of their own.
#pragma once

#include <string>
#include <vector>

#include "tenon/nn/transformer.h"

namespace tenon::nn {

// What GPT2LMHeadModel and LlamaForCausalLM have in their state dicts; a tied head is left out.
std::vector<NamedTensor> to_hugging_face(const Gpt& model);
std::vector<NamedTensor> to_hugging_face(const Llama& model);

// Copies such a state of any floating dtype and device into the model; the outermost prefix
// ("transformer.", "model.") may be missing. Tensors that are missing, unexpected, of another shape
// or no floating numbers, and a head that is not the embedding where the model ties them, are one
// bad_data Error that lists them all, and nothing is changed.
void from_hugging_face(Gpt& model, const std::vector<NamedTensor>& state);
void from_hugging_face(Llama& model, const std::vector<NamedTensor>& state);

}  // namespace tenon::nn
