// Whether operations record what backward needs. Per thread.
#pragma once

namespace tenon {

bool grad_enabled();

class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

// Nothing is recorded within the scope.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace tenon
