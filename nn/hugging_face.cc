#include "tenon/nn/hugging_face.h"

#include <cstring>
#include <map>
#include <set>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/factory.h"

namespace tenon::nn {
namespace {

constexpr const char* kHead = "lm_head.weight";

// A tensor of theirs and where it is here: a whole parameter, possibly transposed, or rows of one.
struct Piece {
  std::string name;  // theirs, without the outermost prefix
  Tensor part;       // a view of our parameter in their shape
};

void add_module(std::vector<Piece>& pieces, const std::string& name, const Parameter& weight,
                const Parameter& bias, bool transposed) {
  const Tensor matrix = weight.detach();
  pieces.push_back({name + ".weight", transposed ? transpose(matrix, 0, 1) : matrix});
  if (bias.defined()) pieces.push_back({name + ".bias", bias.detach()});
}

// Rows of `weight` under several names.
void add_rows(std::vector<Piece>& pieces, const Parameter& weight,
              const std::vector<std::pair<std::string, int64_t>>& parts) {
  int64_t first = 0;
  for (const auto& [name, rows] : parts) {
    pieces.push_back({name + ".weight", narrow(weight.detach(), 0, first, rows)});
    first += rows;
  }
}

std::vector<Piece> pieces_of(const Gpt& model) {
  std::vector<Piece> pieces;
  const Parameter none(nullptr, "", Tensor());
  add_module(pieces, "wte", model.wte->weight, none, false);
  add_module(pieces, "wpe", model.wpe->weight, none, false);
  for (size_t i = 0; i < model.h.size(); ++i) {
    const GptBlock& block = *model.h[i];
    const std::string prefix = str("h.", i, ".");
    add_module(pieces, prefix + "ln_1", block.ln_1->weight, block.ln_1->bias, false);
    const auto linear = [&](const char* name, const Linear& layer) {
      add_module(pieces, prefix + name, layer.weight, layer.bias, true);
    };
    linear("attn.c_attn", *block.attn->c_attn);
    linear("attn.c_proj", *block.attn->c_proj);
    add_module(pieces, prefix + "ln_2", block.ln_2->weight, block.ln_2->bias, false);
    linear("mlp.c_fc", *block.mlp->c_fc);
    linear("mlp.c_proj", *block.mlp->c_proj);
  }
  add_module(pieces, "ln_f", model.ln_f->weight, model.ln_f->bias, false);
  return pieces;
}

std::vector<Piece> pieces_of(const Llama& model) {
  std::vector<Piece> pieces;
  const LlamaOptions& options = model.options();
  const int64_t size = options.dim / options.heads;
  const auto whole = [&](const std::string& name, const Parameter& weight) {
    pieces.push_back({name + ".weight", weight.detach()});
  };
  whole("embed_tokens", model.embed_tokens->weight);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LlamaBlock& block = *model.layers[i];
    const std::string prefix = str("layers.", i, ".");
    const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    whole(prefix + "input_layernorm", block.input_layernorm->weight);
    add_rows(pieces, block.self_attn->qkv_proj->weight,
             {{attention + "q_proj", options.heads * size},
              {attention + "k_proj", options.kv_heads * size},
              {attention + "v_proj", options.kv_heads * size}});
    whole(attention + "o_proj", block.self_attn->o_proj->weight);
    whole(prefix + "post_attention_layernorm", block.post_attention_layernorm->weight);
    add_rows(pieces, block.mlp->gate_up_proj->weight,
             {{mlp + "gate_proj", options.hidden}, {mlp + "up_proj", options.hidden}});
    whole(mlp + "down_proj", block.mlp->down_proj->weight);
  }
  whole("norm", model.norm->weight);
  return pieces;
}

template <class Model>
std::vector<NamedTensor> exported(const Model& model, const std::string& prefix) {
  const NoGrad no_grad;
  std::vector<NamedTensor> state;
  for (const Piece& piece : pieces_of(model)) {
    state.push_back({prefix + piece.name, contiguous(piece.part)});
  }
  if (!model.options().tied_head) state.push_back({kHead, model.lm_head->weight.detach()});
  return state;
}

// Masks that old files of GPT-2 hold.
bool is_no_weight(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

// Our tensors by their names there, an untied head included.
template <class Model>
std::vector<Piece> targets_of(const Model& model) {
  std::vector<Piece> pieces = pieces_of(model);
  if (!model.options().tied_head) pieces.push_back({kHead, model.lm_head->weight.detach()});
  return pieces;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = copied_to(contiguous(a), kCpu), y = copied_to(contiguous(b), kCpu);
  return std::memcmp(x.raw_data(), y.raw_data(), x.nbytes()) == 0;
}

std::string problems_of(const std::map<std::string, Tensor>& given,
                        const std::vector<Piece>& pieces) {
  std::string problems;
  std::set<std::string> known;
  for (const auto& [name, part] : pieces) {
    known.insert(name);
    const auto found = given.find(name);
    if (found == given.end()) {
      problems += str("\n  missing: ", name, ", wanted ", part.shape());
      continue;
    }
    const Tensor& tensor = found->second;
    if (tensor.shape() != part.shape() || !is_floating(tensor.dtype())) {
      problems += str("\n  mismatched: ", name, ", given ", tensor.dtype(), " ", tensor.shape(),
                      ", wanted floating numbers ", part.shape());
    }
  }
  for (const auto& [name, tensor] : given) {
    if (!known.contains(name)) {
      problems += str("\n  unexpected: ", name, ", ", tensor.dtype(), " ", tensor.shape());
    }
  }
  return problems;
}

template <class Model>
void import(Model& model, const std::vector<NamedTensor>& state, const std::string& prefix) {
  const NoGrad no_grad;
  std::string problems;
  std::map<std::string, Tensor> given;
  for (const auto& [name, tensor] : state) {
    if (is_no_weight(name)) continue;
    const std::string bare = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    if (!given.emplace(bare, tensor).second) problems += "\n  given twice: " + bare;
  }
  const std::vector<Piece> pieces = targets_of(model);
  if (model.options().tied_head) {  // files may hold the embedding once more
    const auto head = given.find(kHead), table = given.find(pieces[0].name);
    if (head != given.end() && table != given.end() && !same_bits(head->second, table->second)) {
      problems += str("\n  mismatched: ", kHead, ", wanted the same as ", table->first);
    }
    if (head != given.end()) given.erase(head);
  }
  problems += problems_of(given, pieces);
  if (!problems.empty()) {
    throw Error("[hugging_face] the weights do not fit the model:" + problems, ErrorKind::bad_data);
  }
  for (const Piece& piece : pieces) {
    const Tensor& tensor = given.at(piece.name);
    const bool here = tensor.device() == piece.part.device();
    copy_(piece.part, here ? tensor : copied_to(tensor, piece.part.device()));
  }
}

}  // namespace

std::vector<NamedTensor> to_hugging_face(const Gpt& model) {
  return exported(model, "transformer.");
}
std::vector<NamedTensor> to_hugging_face(const Llama& model) { return exported(model, "model."); }
void from_hugging_face(Gpt& model, const std::vector<NamedTensor>& state) {
  import(model, state, "transformer.");
}
void from_hugging_face(Llama& model, const std::vector<NamedTensor>& state) {
  import(model, state, "model.");
}

}  // namespace tenon::nn
