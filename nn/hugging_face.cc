#include "tenon/nn/hugging_face.h"

#include <map>
#include <set>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/shape.h"

namespace tenon::nn {
namespace {

// A parameter of ours and where it is there: rows [first, first + rows) of tensors one after
// another, possibly transposed.
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
  if (!model.options().tied_head) {
    state.push_back({"lm_head.weight", model.lm_head->weight.detach()});
  }
  return state;
}

// Masks that old files of GPT-2 hold.
bool is_no_weight(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

template <class Model>
void import(Model& model, const std::vector<NamedTensor>& state, const std::string& prefix) {
  const NoGrad no_grad;
  std::map<std::string, Tensor> given;
  for (const auto& [name, tensor] : state) {
    if (is_no_weight(name)) continue;
    given.emplace(name.starts_with(prefix) ? name.substr(prefix.size()) : name, tensor);
  }
  std::vector<Piece> pieces = pieces_of(model);
  if (!model.options().tied_head) {
    pieces.push_back({"lm_head.weight", model.lm_head->weight.detach()});
  } else {
    given.erase("lm_head.weight");  // the embedding's, once more
  }
  std::string problems;
  for (const Piece& piece : pieces) {
    const auto found = given.find(piece.name);
    if (found == given.end()) {
      problems += "\n  missing " + piece.name;
    } else if (found->second.shape() != piece.part.shape()) {
      problems += str("\n  ", piece.name, ": given ", found->second.shape(), ", wanted ",
                      piece.part.shape());
    }
  }
  std::set<std::string> known;
  for (const Piece& piece : pieces) known.insert(piece.name);
  for (const auto& [name, tensor] : given) {
    if (!known.contains(name)) problems += "\n  unexpected " + name;
  }
  if (!problems.empty()) {
    throw Error("[hugging_face] the weights do not fit the model:" + problems, ErrorKind::bad_data);
  }
  for (const Piece& piece : pieces) copy_(piece.part, given.at(piece.name));
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
