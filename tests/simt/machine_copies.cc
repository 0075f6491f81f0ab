// Copies that threads have begun and not yet waited for.
#include <algorithm>

#include "tenon/core/check.h"
#include "tenon/tests/simt/machine.h"

namespace simt {
namespace {

Machine& machine() {
  Machine* const current = Machine::current();
  if (current == nullptr) {
    report(Kind::bad_call, "an asynchronous copy outside of a kernel");
    std::abort();
  }
  return *current;
}

}  // namespace

void PendingCopies::clear() {
  copies_.clear();
  groups_.clear();
  next_ = 0;
}

void PendingCopies::commit() { groups_.push_back(copies_.size()); }

bool PendingCopies::next(int pending, AsyncCopy& copy) {
  const auto left = static_cast<size_t>(pending);
  const size_t end = groups_.size() > left ? groups_[groups_.size() - 1 - left] : 0;
  if (next_ < end) {
    copy = copies_[next_++];
    return true;
  }
  if (groups_.size() > 0 && next_ == copies_.size()) clear();
  return false;
}

void add_copy(const AsyncCopy& copy) { machine().copies().add(copy); }
void commit_copies() { machine().copies().commit(); }
bool next_copy(int pending, AsyncCopy& copy) { return machine().copies().next(pending, copy); }

void Machine::check_copies() {
  if (copies().empty()) return;
  report(Kind::bad_call, tenon::str(where(), " ends before copies that it has begun"));
  give_up();
}

}  // namespace simt
