// A GPU that does nothing: a device guard and hooks, with which a CPU build of torch goes backward through CUDA tensors
// that hold no values (FakeTensorMode). Built and loaded by fake_gpu.py.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

using namespace c10;

struct NoGuard final : impl::DeviceGuardImplInterface {
  static constexpr DeviceType kType = DeviceType::CUDA;
  static Stream stream() { return Stream(Stream::DEFAULT, Device(kType, 0)); }
  DeviceType type() const override { return kType; }
  Device exchangeDevice(Device) const override { return Device(kType, 0); }
  Device getDevice() const override { return Device(kType, 0); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const noexcept override { return stream(); }
  Stream getNewStream(Device, int = 0) const override { return stream(); }
  Stream exchangeStream(Stream) const noexcept override { return stream(); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
};

impl::DeviceGuardImplRegistrar registrar(DeviceType::CUDA, new NoGuard());

}  // namespace

namespace at {

struct NoHooks : CUDAHooksInterface {
  explicit NoHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
};

// Looked up by the name of the class that CUDA builds register.
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", NoHooks)

}  // namespace at
