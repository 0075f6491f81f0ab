#include "tenon/distributed/comm/world.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"
#include "tenon/distributed/comm/mpi_backend.h"

namespace tenon {
namespace {

// The runtime that a failure has to end, and the rank's context; both live until the process ends.
std::atomic<comm::MpiRuntime*> active_runtime{nullptr};
std::atomic<RankContext*> active_context{nullptr};

int number_from(const char* variable) {
  const char* text = ::getenv(variable);
  return text != nullptr ? std::atoi(text) : 0;
}

// Whether a launcher has started several ranks. A PMIX launcher gives only the rank's own number.
bool is_launched() {
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (::getenv(size) != nullptr) return number_from(size) > 1;
  }
  return ::getenv("PMIX_RANK") != nullptr;
}

// Open MPI's own temporaries and copies: without this freed memory goes back to the system and
// every large message takes its page faults again.
void tune_mpi() {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 64 << 20);
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  ::setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
}

struct Failure {
  std::string text;
  int code;
};

// Of the exception in flight.
Failure current_failure() {
  if (!std::current_exception()) return {"terminated without an exception", 1};
  try {
    throw;
  } catch (const Error& error) {
    return {error.what(), error.exit_code()};
  } catch (const std::exception& error) {
    return {error.what(), 1};
  } catch (...) {
    return {"an exception that is no std::exception", 1};
  }
}

// Not freed: threads, storages and requests may outlive the World.
RankContext& make_context(int rank, int size) {
  static auto* const contexts = new std::vector<std::unique_ptr<RankContext>>();
  contexts->push_back(std::make_unique<RankContext>(rank, size));
  active_context = contexts->back().get();
  return *contexts->back();
}

// Writes the failure and, where there are other ranks, ends them too; alone it returns the status.
int report(const Failure& failure) {
  if (comm::MpiRuntime* runtime = active_runtime) runtime->end_job(failure.text, failure.code);
  std::fflush(stdout);
  const RankContext* context = active_context;
  const int64_t step = context != nullptr ? context->step.load() : 0;
  const std::string prefix = step > 0 ? str("step ", step, ": ") : "";
  std::fprintf(stderr, "%s%s\n", prefix.c_str(), failure.text.c_str());
  return failure.code;
}

[[noreturn]] void on_terminate() {
  const int code = report(current_failure());
  std::fflush(nullptr);
  std::_Exit(code);
}

// A process that exits in the middle: the others must not wait for it.
void on_exit_early(int status, void*) {
  comm::MpiRuntime* runtime = active_runtime;
  if (runtime == nullptr || runtime->closed()) return;
  if (status == 0) {
    runtime->close();
  } else {
    comm::end_ranks(status);
  }
}

std::shared_ptr<EventRing> make_ring(int rank) {
  const char* folder = ::getenv("TENON_RING_DIR");
  if (folder == nullptr || *folder == '\0') return std::make_shared<EventRing>();
  std::filesystem::create_directories(folder);
  return std::make_shared<EventRing>(str(folder, "/rank_", rank, ".ring"));
}

}  // namespace

struct World::Impl {
  Impl(int argc, char** argv);
  ~Impl();
  void start_mpi(int* argc, char*** argv);

  const int exceptions = std::uncaught_exceptions();
  std::shared_ptr<comm::MpiRuntime> runtime;
  std::unique_ptr<RankContextScope> scope;
  ProcessGroup group;
  Device device = kCpu;
};

World::Impl::Impl(int argc, char** argv) {
  TENON_CHECK(active_context == nullptr, "world", "there is a World already, wanted one at a time");
  std::set_terminate(on_terminate);
  if (is_launched()) start_mpi(&argc, &argv);
  RankContext& context = runtime ? *active_context : make_context(0, 1);
  context.ring = make_ring(context.rank());
  scope = std::make_unique<RankContextScope>(context);
  if (!runtime) return;
  if (::getenv("OMP_NUM_THREADS") == nullptr) set_num_threads(runtime->cores_per_rank());
  runtime->queue().run([&] {
    MPI_Comm all = MPI_COMM_NULL;
    comm::check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &all), "world");
    group = ProcessGroup(comm::MpiBackend::create(runtime, all));
  });
}

void World::Impl::start_mpi(int* argc, char*** argv) {
  tune_mpi();
  int provided = 0;
  comm::check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "world");
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) {
    MPI_Finalize();
    return;
  }
  runtime = std::make_shared<comm::MpiRuntime>(make_context(rank, size));
  active_runtime = runtime.get();
  [[maybe_unused]] static const int registered = ::on_exit(on_exit_early, nullptr);
}

World::Impl::~Impl() {
  // While an exception passes, MPI stays open: finishing it would wait for ranks that wait for this
  // one. Whoever ends the process ends the job too.
  if (std::uncaught_exceptions() > exceptions) {
    [[maybe_unused]] static auto* const kept =
        new std::shared_ptr<comm::MpiRuntime>(std::move(runtime));
    return;
  }
  group = ProcessGroup();
  if (runtime) runtime->close();
  active_runtime = nullptr;
  active_context = nullptr;
}

World::World(int argc, char** argv) : impl_(std::make_unique<Impl>(argc, argv)) {}
World::~World() = default;

int World::rank() const { return impl_->group.rank(); }
int World::size() const { return impl_->group.size(); }
int World::local_rank() const { return impl_->runtime ? impl_->runtime->local_rank() : 0; }
int World::local_size() const { return impl_->runtime ? impl_->runtime->local_size() : 1; }
Device World::device() const { return impl_->device; }

Device World::use(DeviceType type) {
  const int count = runtime(type).device_count();
  impl_->device = {type, type == DeviceType::cpu ? 0 : local_rank() % count};
  impl_->group = impl_->group.with_device(impl_->device);
  return impl_->device;
}

ProcessGroup World::group() const { return impl_->group; }

int run_main(int argc, char** argv, const std::function<int(World&)>& body) {
  World world(argc, argv);
  try {
    return body(world);
  } catch (...) {
    return report(current_failure());
  }
}

}  // namespace tenon
