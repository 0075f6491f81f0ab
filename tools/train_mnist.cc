// Trains the well-known CNN or an MLP on MNIST-like images in IDX files, with any number of ranks.
//   mpirun -np 2 train_mnist --epochs 3
#include <iostream>

#include "tenon/tools/image_task.h"
#include "tenon/tools/models.h"
#include "tenon/tools/trainer.h"

namespace {

using namespace tenon;
using namespace tenon::tools;

std::unique_ptr<Trainable> make_model(const TrainingOptions& options,
                                      const Parallelism& parallelism) {
  if (options.model == "mlp") {
    return make_trainable<Mlp>(parallelism, MlpOptions{.dropout = options.dropout.value_or(0)});
  }
  CnnOptions cnn;
  if (options.dropout) cnn = {*options.dropout, *options.dropout};
  return make_trainable<Cnn>(parallelism, cnn);
}

ImageDataset load(const std::string& folder, Split split) {
  ImageDataset images = load_idx_dataset(folder, split);
  if (images.height() != 28 || images.width() != 28 || images.classes() > 10) {
    throw Error(str("[dataset] ", folder, ": wrong images: ", images.height(), "x", images.width(),
                    " pixels, ", images.classes(), " classes, wanted 28x28 and at most 10"),
                ErrorKind::bad_data);
  }
  return images;
}

int run(World& world, int argc, char** argv) {
  TrainingOptions options;
  options.data = "/usr/share/datasets/fashion-mnist";
  options.model = "cnn";
  options.optimizer = "adadelta";
  options.schedule = "step";
  options.default_epochs = 5;
  CommandLine line("Trains a network on MNIST-like images in IDX files.");
  add_training_flags(line, options, {"cnn", "mlp"});
  const bool leader = world.rank() == 0;
  if (const auto status = line.parse(argc, argv, leader)) return *status;
  resolve(options, world);
  ImageTask task(load(options.data, Split::train), load(options.data, Split::test),
                 options.dtype == "f64" ? DType::f64 : DType::f32);
  Trainer trainer(world, options, task,
                  [&](const Parallelism& parallelism) { return make_model(options, parallelism); });
  trainer.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tenon::run_main(argc, argv, [&](tenon::World& world) { return run(world, argc, argv); });
}
