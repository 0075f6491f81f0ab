// Trains a GPT or a Llama on a text or on files of tokens, with any number of ranks.
//   mpirun -np 2 train_gpt --data book.txt --max-steps 2000 --sample 200
#include <iostream>

#include "tenon/core/rank_context.h"
#include "tenon/nn/generate.h"
#include "tenon/nn/hugging_face.h"
#include "tenon/nn/safetensors.h"
#include "tenon/tools/output_file.h"
#include "tenon/tools/text_task.h"
#include "tenon/tools/trainer.h"

namespace {

using namespace tenon;
using namespace tenon::tools;

struct Flags {
  TrainingOptions training;
  TextOptions text;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;
  int64_t dim = 128;
  bool bias = false;
  bool gelu_tanh = false;
  bool recompute = false;
  std::string init_from;
  std::string export_to;
  int64_t sample = 0;
  std::string prompt = "\n";
  nn::SamplingOptions sampling;
};

void add_flags(CommandLine& line, Flags& flags) {
  add_training_flags(line, flags.training, {"gpt", "llama"}, "--arch");
  line.heading("Transformer and text");
  line.add("--layers", flags.layers, "Blocks").at_least(1);
  line.add("--heads", flags.heads, "Heads of queries").at_least(1);
  line.add("--kv-heads", flags.kv_heads, "llama: heads of keys and values; 0: as many as --heads")
      .at_least(0);
  line.add("--dim", flags.dim, "Width of the residual stream").at_least(1);
  line.add("--context", flags.text.context, "Tokens of a sequence").at_least(1);
  line.add_switch("--bias", flags.bias, "gpt: with biases, as GPT-2 has them");
  line.add_switch("--gelu-tanh", flags.gelu_tanh, "gpt: GELU in GPT-2's approximation");
  line.add_switch("--recompute", flags.recompute,
                  "Keep the inputs of blocks alone and compute the rest again in backward");
  line.add("--tokenizer", flags.text.tokenizer,
           "byte, char (the default for a text) or bpe:FILE with ranks as tiktoken keeps them");
  line.add("--vocab", flags.text.vocab, "Kinds of tokens in token files; 0: 50257, GPT-2's")
      .at_least(0);
  line.add("--train-fraction", flags.text.train_fraction,
           "Part of a single file to train on; the rest is held out")
      .between(0, 1);
  line.add("--init-from", flags.init_from,
           "First weights: safetensors with Hugging Face's names of GPT-2 or Llama");
  line.add("--export", flags.export_to, "The last weights, to such a file");
  line.add("--sample", flags.sample, "Tokens to generate at the end").at_least(0);
  line.add("--prompt", flags.prompt, "What they go on from");
  line.add("--temperature", flags.sampling.temperature, "0: always the most likely token")
      .at_least(0);
  line.add("--top-k", flags.sampling.top_k, "Only the so many most likely tokens; 0: all")
      .at_least(0);
  line.add("--top-p", flags.sampling.top_p, "Only the most likely tokens of this probability")
      .above(0)
      .between(0, 1);
}

// nanoGPT's setting for a small model on the CPU.
void set_defaults(TrainingOptions& options) {
  options.model = "gpt";
  options.optimizer = "adamw";
  options.schedule = "cosine";
  options.batch = 12;
  options.max_steps = 2000;
  options.usual_warmup = 100;
  options.lr = 1e-3;
  options.min_lr = 1e-4;
  options.beta2 = 0.99;
  options.weight_decay = 0.1;
  options.decay_matrices = true;
  options.clip = 1;
  options.eval_every = 500;
}

Json config_of(const Flags& flags) {
  return {{"arch", flags.training.model},
          {"layers", flags.layers},
          {"heads", flags.heads},
          {"kv_heads", flags.kv_heads},
          {"dim", flags.dim},
          {"context", flags.text.context},
          {"bias", flags.bias},
          {"gelu_tanh", flags.gelu_tanh}};
}

nn::GptOptions gpt_options(const Flags& flags, int64_t vocab) {
  return {.vocab = vocab,
          .layers = flags.layers,
          .heads = flags.heads,
          .dim = flags.dim,
          .context = flags.text.context,
          .bias = flags.bias,
          .dropout = flags.training.dropout.value_or(0),
          .gelu_tanh = flags.gelu_tanh,
          .recompute = flags.recompute};
}

nn::LlamaOptions llama_options(const Flags& flags, int64_t vocab) {
  return {.vocab = vocab,
          .layers = flags.layers,
          .heads = flags.heads,
          .kv_heads = flags.kv_heads,
          .dim = flags.dim,
          .context = flags.text.context,
          .recompute = flags.recompute};
}

// Calls body with the model as what it is.
template <class Body>
auto as_transformer(Module& model, const Body& body) {
  if (auto* const llama = dynamic_cast<nn::Llama*>(&model)) return body(*llama);
  return body(dynamic_cast<nn::Gpt&>(model));
}

std::vector<int32_t> sample(Module& model, const Flags& flags, std::vector<int32_t> prompt) {
  Generator random(flags.training.seed, 1);
  const auto uniform = [&] {
    const PhiloxKey key = random.reserve(1);
    return static_cast<double>(uniform_from_bits(philox(key.seed, key.stream, key.offset)[0]));
  };
  return as_transformer(model, [&](auto& transformer) {
    return nn::generate(transformer, std::move(prompt), flags.sample, flags.sampling, uniform);
  });
}

// What samples go on from; of token files without a tokenizer the first kind of token.
std::vector<int32_t> prompt_tokens(const Flags& flags, const Tokenizer* tokenizer) {
  const auto usage = [](const std::string& text) { throw Error(text, ErrorKind::usage); };
  if (tokenizer == nullptr) {
    if (flags.prompt != Flags().prompt) {
      usage("[flags] --prompt needs a --tokenizer, as these are files of tokens");
    }
    return {0};
  }
  if (flags.prompt.empty()) usage("[flags] --prompt is empty, wanted at least one character");
  try {
    return tokenizer->encode(flags.prompt);
  } catch (const Error& error) {
    usage(str("[flags] --prompt: ", error.what()));
  }
  return {};
}

void print_sample(Module& model, const Flags& flags, std::vector<int32_t> prompt,
                  const Tokenizer* tokenizer) {
  const std::vector<int32_t> tokens = sample(model, flags, std::move(prompt));
  if (tokenizer != nullptr) {
    std::cout << flags.prompt << tokenizer->decode(tokens) << std::endl;
    return;
  }
  for (const int32_t token : tokens) std::cout << token << ' ';
  std::cout << std::endl;
}

int run(World& world, int argc, char** argv) {
  Flags flags;
  set_defaults(flags.training);
  CommandLine line("Trains a transformer on text.");
  add_flags(line, flags);
  if (const auto status = line.parse(argc, argv, world.rank() == 0)) return *status;
  if (flags.training.data.empty()) {
    throw Error(
        "[flags] --data is missing: wanted a text, a .bin file of tokens or a folder of them",
        ErrorKind::usage);
  }
  if (!flags.init_from.empty() && !flags.training.resume.empty()) {
    throw Error("[flags] given --init-from and --resume: wanted one of them", ErrorKind::usage);
  }
  resolve(flags.training, world);
  if (world.rank() == 0) check_output_file("--export", flags.export_to);
  flags.text.data = flags.training.data;
  TextTask task(load_text_data(flags.text), flags.text.context, config_of(flags));
  const int64_t vocab = task.data().vocab;
  const Tokenizer* const tokenizer = task.data().tokenizer.get();
  std::vector<int32_t> prompt;
  if (flags.sample > 0) prompt = prompt_tokens(flags, tokenizer);
  const bool llama = flags.training.model == "llama";
  Trainer trainer(world, flags.training, task, [&](const Parallelism& parallelism) {
    auto model = llama ? make_trainable<nn::Llama>(parallelism, llama_options(flags, vocab))
                       : make_trainable<nn::Gpt>(parallelism, gpt_options(flags, vocab));
    // Looking up a position or a token multiplies nothing; a tied head counts once, as the head.
    const int64_t looked_up = flags.dim * (llama ? vocab : flags.text.context);
    task.set_flops(model->module().parameter_count() - looked_up, flags.layers, flags.dim);
    return model;
  });
  if (!flags.init_from.empty()) {
    as_transformer(trainer.model(), [&](auto& model) {
      nn::from_hugging_face(model, load_safetensors(flags.init_from).tensors);
    });
  }
  trainer.run();
  if (!flags.export_to.empty() && world.rank() == 0) {
    as_transformer(trainer.model(), [&](auto& model) {
      save_safetensors(flags.export_to, nn::to_hugging_face(model), {{"format", "pt"}});
    });
  }
  if (flags.sample > 0 && world.rank() == 0) {
    print_sample(trainer.model(), flags, std::move(prompt), tokenizer);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tenon::run_main(argc, argv, [&](tenon::World& world) { return run(world, argc, argv); });
}
