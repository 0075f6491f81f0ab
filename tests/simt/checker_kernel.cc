// An access in a kernel: which memory it is, and what is wrong with it.
#include <link.h>

#include <algorithm>
#include <vector>

#include "tenon/core/check.h"
#include "tenon/tests/simt/checker_memory.h"
#include "tenon/tests/simt/device_heap.h"
#include "tenon/tests/simt/fake_runtime.h"

namespace simt::checker {

__thread Kernel* running_kernel __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

struct Range {
  const char* begin;
  const char* end;
};

// The constants of the program and of its libraries: what no code may write.
std::vector<Range> constant_ranges() {
  std::vector<Range> ranges;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          const bool constant = header.p_type == PT_GNU_RELRO ||
                                (header.p_type == PT_LOAD && (header.p_flags & PF_W) == 0);
          if (!constant) continue;
          const auto* begin = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
          static_cast<std::vector<Range>*>(out)->push_back({begin, begin + header.p_memsz});
        }
        return 0;
      },
      &ranges);
  return ranges;
}

bool is_constant(const void* address) {
  static std::vector<Range>& ranges = *new std::vector<Range>(constant_ranges());
  const auto inside = [address](const Range& range) {
    return address >= range.begin && address < range.end;
  };
  if (std::any_of(ranges.begin(), ranges.end(), inside)) return true;
  ranges = constant_ranges();  // a library may have been opened since
  return std::any_of(ranges.begin(), ranges.end(), inside);
}

// What kernels may touch besides the device's memory: their stacks, parameters, indices, constants.
bool is_own(const Kernel& kernel, const Touch& touch) {
  const auto* address = static_cast<const char*>(touch.address);
  const auto* coordinates = reinterpret_cast<const char*>(&here);
  if (address >= coordinates && address < coordinates + sizeof here) return true;
  const KernelCall* call = kernel.machine.launch().call.get();
  const auto* parameters = reinterpret_cast<const char*>(call);
  if (address >= parameters && address < parameters + call->bytes) return !touch.write;
  if (kernel.machine.owns_stack(address)) return true;
  return !touch.write && is_constant(address);
}

void complain(Kernel& kernel, Kind kind, const Touch& touch, const std::string& why) {
  if (!kernel.reported.emplace(kind, touch.code).second) return;
  running_kernel = nullptr;  // the handler's accesses are not the kernel's
  const char* verb = touch.atomic ? " changes " : touch.write ? " writes " : " reads ";
  report(kind, tenon::str(kernel.machine.where(), verb, touch.bytes, " bytes of ",
                          describe(&kernel, touch.address), ": ", why,
                          touch.atomic ? "" : describe_code(touch.code)));
  running_kernel = &kernel;
}

Record record_of(const Kernel& kernel, const Touch& touch) {
  Record now;
  now.task = kernel.task;
  now.block = static_cast<uint32_t>(kernel.machine.block_number());
  now.epoch = kernel.machine.block_epoch();
  now.thread = static_cast<uint16_t>(here.number & 1023u);
  now.warp_epoch = static_cast<uint16_t>(kernel.machine.warp_epoch() & 0x7fffu);
  now.atomic = touch.atomic ? 1 : 0;
  return now;
}

Kind race_kind(const Kernel& kernel, const Record& other, bool shared) {
  if (shared) return Kind::shared_race;
  return other.task == kernel.task ? Kind::global_race : Kind::stream_race;
}

void touch_shadow(Kernel& kernel, const Touch& touch, Shadow& shadow, size_t offset, bool shared) {
  Record now = record_of(kernel, touch);
  if (shared) {  // one block has it after the other, and epochs only grow
    now.task = 1;
    now.block = 0;
  }
  for (size_t granule = offset / 4 * 4; granule < offset + touch.bytes; granule += 4) {
    const uint8_t bytes = bytes_in(granule, offset, touch.bytes);
    State& state = shadow.state(granule);
    if ((state >> 4 & bytes) != bytes) {
      const bool freed = !shared && (state & bytes) != 0;
      return complain(kernel, freed ? Kind::use_after_free : Kind::out_of_bounds, touch,
                      freed ? "it was freed" : "it is not allocated");
    }
    if ((!touch.write || touch.atomic) && (state & bytes) != bytes) {
      complain(kernel, Kind::uninitialised, touch, "nobody has written it");
      state |= bytes;
    }
    if (touch.write) state |= bytes;
    now.bytes = bytes & 0x0fu;
    const Record other =
        enter(shadow.cell(granule), now, touch.write, kernel.stream_task->clock, &kernel);
    if (other.task != 0) {
      complain(kernel, race_kind(kernel, other, shared), touch,
               describe(other, shared) + (shared ? "" : " in '" + name_of(other.task) + "'"));
    }
  }
}

}  // namespace

void touch_in_kernel(Kernel& kernel, const Touch& touch) {
  const Fiber& fiber = kernel.machine.fiber();
  const auto* address = static_cast<const char*>(touch.address);
  if (address >= fiber.bottom && address < fiber.bottom + fiber.bytes) return;
  const SharedArena& arena = kernel.machine.arena();
  if (arena.holds(address)) {
    const auto offset = static_cast<size_t>(address - arena.memory());
    return touch_shadow(kernel, touch, kernel.shared, offset, true);
  }
  HeapShadow& heap = heap_shadow();
  if (heap.holds(address)) {
    const int owner = device_of_address(address);
    if (owner >= 0 && !may_access(kernel.stream_task->device, owner)) {
      return complain(kernel, Kind::host_memory, touch,
                      tenon::str("it belongs to device ", owner, ", the kernel runs on device ",
                                 kernel.stream_task->device, " without access to it"));
    }
    return touch_shadow(kernel, touch, heap.shadow, heap.offset(address), false);
  }
  if (!is_own(kernel, touch)) {
    complain(kernel, Kind::host_memory, touch, "the device cannot reach it");
  }
}

}  // namespace simt::checker
