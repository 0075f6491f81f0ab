// Fake CUDA runtime: streams and events.
#include "tenon/tests/simt/fake_runtime.h"
#include "tenon/tests/simt/settings.h"
#include "tenon/tests/simt/streams.h"

using simt::failed;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  SIMT_MAY_FAIL(cudaErrorMemoryAllocation);
  *stream = simt::create_stream(simt::current_device(), flags, priority);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  SIMT_MAY_FAIL(cudaErrorMemoryAllocation);
  *stream = simt::create_stream(simt::current_device(), flags, 0);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  SIMT_MAY_FAIL(cudaErrorInvalidResourceHandle);
  return simt::destroy_stream(stream) ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  SIMT_MAY_FAIL(cudaErrorIllegalAddress);
  CUstream_st* stream = simt::resolve(handle);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  return simt::stream_idle(stream) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  SIMT_MAY_FAIL(cudaErrorIllegalAddress);
  CUstream_st* stream = simt::resolve(handle);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  simt::wait_for_stream(stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  SIMT_MAY_FAIL(cudaErrorIllegalAddress);
  simt::wait_for_device(simt::current_device());
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  SIMT_MAY_FAIL(cudaErrorInvalidResourceHandle);
  CUstream_st* stream = simt::resolve(handle);
  if (stream == nullptr || event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (event->record != nullptr) simt::enqueue_wait(stream, event->record);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  if (simt::resolve(stream) == nullptr) return failed(cudaErrorInvalidResourceHandle);
  simt::enqueue_host(stream, "cudaLaunchHostFunc", [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  SIMT_MAY_FAIL(cudaErrorMemoryAllocation);
  *event = new CUevent_st{simt::current_device(), flags, nullptr};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  SIMT_MAY_FAIL(cudaErrorInvalidResourceHandle);
  if (event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  SIMT_MAY_FAIL(cudaErrorInvalidResourceHandle);
  CUstream_st* stream = simt::resolve(handle);
  if (stream == nullptr || event == nullptr || event->device != stream->device) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  event->record = simt::record_event(stream);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  SIMT_MAY_FAIL(cudaErrorIllegalAddress);
  if (event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (event->record == nullptr) return cudaSuccess;
  if (!simt::record_done(event->record)) return cudaErrorNotReady;
  simt::host_saw(event->record->clock);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  SIMT_MAY_FAIL(cudaErrorIllegalAddress);
  if (event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (event->record != nullptr) simt::wait_for_record(event->record);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  SIMT_MAY_FAIL(cudaErrorInvalidResourceHandle);
  if (start == nullptr || end == nullptr || start->record == nullptr || end->record == nullptr ||
      ((start->flags | end->flags) & cudaEventDisableTiming) != 0) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  if (!simt::record_done(start->record) || !simt::record_done(end->record)) {
    return failed(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>(end->record->milliseconds - start->record->milliseconds);
  return cudaSuccess;
}
