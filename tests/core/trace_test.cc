#include "tenon/core/trace.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "tenon/core/check.h"
#include "tenon/tests/support/scratch.h"

namespace tenon {
namespace {

using Catch::Contains;

TEST_CASE("event ring: an event carries what it was begun with, and its times in order") {
  EventRing ring;
  CHECK(ring.events().empty());
  const uint64_t id = ring.begin(EventKind::collective, "all_reduce", "ddp", 4096, 3, 17);
  const Event running = ring.events().at(0);
  CHECK(running.id == id);
  CHECK(running.end_ns == 0);
  ring.start(id);
  ring.end(id);
  const Event event = ring.events().at(0);
  CHECK(event.kind == EventKind::collective);
  CHECK(std::string(event.op) == "all_reduce");
  CHECK(std::string(event.tag) == "ddp");
  CHECK(event.bytes == 4096);
  CHECK(event.index == 3);
  CHECK(event.step == 17);
  CHECK(event.launch_ns > 0);
  CHECK(event.start_ns >= event.launch_ns);
  CHECK(event.end_ns >= event.start_ns);
}

TEST_CASE("event ring: names too long are cut") {
  EventRing ring;
  ring.begin(EventKind::mark, std::string(100, 'o'), std::string(100, 't'), 0, -1, 0);
  const Event event = ring.events().at(0);
  CHECK(std::string(event.op) == std::string(23, 'o'));
  CHECK(std::string(event.tag) == std::string(15, 't'));
}

TEST_CASE("event ring: the newest events stay, and late ends of lost ones change nothing") {
  EventRing ring;
  const uint64_t first = ring.begin(EventKind::phase, "forward", "", 0, -1, 0);
  for (int i = 0; i < EventRing::kCapacity + 9; ++i) {
    ring.begin(EventKind::phase, "forward", "", i, -1, 0);
  }
  ring.start(first);
  ring.end(first);
  const std::vector<Event> events = ring.events();
  REQUIRE(events.size() == EventRing::kCapacity);
  CHECK(events.front().id == 11);
  CHECK(events.back().id == EventRing::kCapacity + 10);
  bool in_order = true, untouched = true;
  for (size_t i = 0; i < events.size(); ++i) {
    in_order = in_order && events[i].id == events[0].id + i;
    untouched = untouched && events[i].end_ns == 0;
  }
  CHECK(in_order);
  CHECK(untouched);
}

TEST_CASE("event ring: a file is read back by another") {
  const testing::ScratchDirectory folder;
  const std::string path = folder.file("ring");
  EventRing ring(path);
  const uint64_t id = ring.begin(EventKind::collective, "reduce_scatter", "fsdp", 64, 2, 5);
  ring.end(id);
  ring.begin(EventKind::mark, "open", "", 0, -1, 6);
  const std::vector<Event> events = EventRing::read(path);
  REQUIRE(events.size() == 2);
  CHECK(std::string(events[0].op) == "reduce_scatter");
  CHECK(events[0].end_ns > 0);
  CHECK(events[1].end_ns == 0);
}

TEST_CASE("event ring: a file survives the kill of its process") {
  const testing::ScratchDirectory folder;
  const std::string path = folder.file("ring");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    EventRing ring(path);
    ring.begin(EventKind::collective, "all_reduce", "ddp", 8, 0, 1);
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const std::vector<Event> events = EventRing::read(path);
  REQUIRE(events.size() == 1);
  CHECK(std::string(events[0].op) == "all_reduce");
}

TEST_CASE("event ring: what is no ring is refused") {
  const testing::ScratchDirectory folder;
  const std::string path = folder.file("ring");
  CHECK_THROWS_WITH(EventRing::read(path), Contains("[trace] not an event ring"));
  std::ofstream(path) << std::string(2 << 20, 'x');
  CHECK_THROWS_WITH(EventRing::read(path), Contains("not an event ring: given"));
  CHECK_THROWS_WITH(EventRing::read("/nowhere/ring"), Contains("'/nowhere/ring'"));
  CHECK_THROWS_WITH(EventRing("/nowhere/ring"),
                    Contains("cannot create the event ring: given '/nowhere/ring'"));
}

TEST_CASE("event ring: threads write to it together") {
  EventRing ring;
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) ring.end(ring.begin(EventKind::phase, "x", "", 1, -1, 0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<Event> events = ring.events();
  CHECK(events.size() == 400);
  CHECK(std::all_of(events.begin(), events.end(), [](const Event& e) { return e.end_ns > 0; }));
}

TEST_CASE("traffic: calls and bytes by tag") {
  TrafficCounters traffic;
  traffic.add("ddp", 100);
  traffic.add("log", 4);
  traffic.add("ddp", 50);
  CHECK(traffic.of("ddp") == Traffic{2, 150});
  CHECK(traffic.of("log") == Traffic{1, 4});
  CHECK(traffic.of("fsdp") == Traffic{});
  CHECK(traffic.by_tag().size() == 2);
  traffic.reset();
  CHECK(traffic.by_tag().empty());
}

}  // namespace
}  // namespace tenon
