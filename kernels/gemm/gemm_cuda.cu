// Products through cuBLASLt. Row-major c = op(a) op(b) is column-major c' = op(b') op(a'), so the operands change places and nothing is moved.
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/base/scratch.h"

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

namespace trainyard::kernels {
namespace {

cudaDataType_t cuda_type(Type t) { return t == Type::f32 ? CUDA_R_32F : t == Type::bf16 ? CUDA_R_16BF : CUDA_R_64F; }

// The first failure of a sequence of calls.
struct Try {
  cublasStatus_t first = CUBLAS_STATUS_SUCCESS;
  bool operator()(cublasStatus_t s) {
    if (first == CUBLAS_STATUS_SUCCESS) first = s;
    return first == CUBLAS_STATUS_SUCCESS;
  }
};

struct Description {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  ~Description() {
    if (a != nullptr) cublasLtMatrixLayoutDestroy(a);
    if (b != nullptr) cublasLtMatrixLayoutDestroy(b);
    if (c != nullptr) cublasLtMatrixLayoutDestroy(c);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
};

cublasLtHandle_t handle_of_thread(Try& attempt) {
  thread_local cublasLtHandle_t handle = nullptr;
  if (handle == nullptr) attempt(cublasLtCreate(&handle));
  return handle;
}

void describe(const GemmArgs& g, Description& d, Try& attempt) {
  const bool wide = g.a.type == Type::f64;
  attempt(cublasLtMatmulDescCreate(&d.operation, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, wide ? CUDA_R_64F : CUDA_R_32F));
  const cublasOperation_t first = g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  attempt(cublasLtMatmulDescSetAttribute(d.operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
  attempt(cublasLtMatmulDescSetAttribute(d.operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
  const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  attempt(cublasLtMatrixLayoutCreate(&d.a, cuda_type(g.b.type), size(g.trans_b ? g.k : g.n), size(g.trans_b ? g.n : g.k), g.b.pitch));
  attempt(cublasLtMatrixLayoutCreate(&d.b, cuda_type(g.a.type), size(g.trans_a ? g.m : g.k), size(g.trans_a ? g.k : g.m), g.a.pitch));
  attempt(cublasLtMatrixLayoutCreate(&d.c, cuda_type(g.c.type), size(g.n), size(g.m), g.c.pitch));
  if (g.bias.empty()) return;
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  attempt(cublasLtMatmulDescSetAttribute(d.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  attempt(cublasLtMatmulDescSetAttribute(d.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g.bias.data, sizeof g.bias.data));
}

// The library wants its workspace at 256 bytes; an arena gives 64.
struct Workspace {
  explicit Workspace(void* scratch) : data(reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(scratch) + 255) / 256 * 256)) {}
  void* data;
  static constexpr std::uint64_t bytes = base::gpu_gemm_scratch_bytes - 256;
};

// The largest power of two up to 256 at which an operand begins. The heuristic takes 256 for granted otherwise, and a column slice has less.
std::uint32_t alignment_of(const Mat& m) {
  const auto at = reinterpret_cast<std::uintptr_t>(m.data) | 256;
  return static_cast<std::uint32_t>(at & (~at + 1));
}

// The heuristic's first choice for a shape, remembered: the same algorithm for the same product in every run of a library version, never one that was timed. Sums that
// several blocks share go through the workspace in a fixed order.
bool choose(const GemmArgs& g, const Description& d, cublasLtHandle_t handle, cublasLtMatmulAlgo_t& algorithm, Try& attempt) {
  using Key = std::array<std::int64_t, 15>;
  static std::mutex mutex;
  static std::map<Key, cublasLtMatmulAlgo_t> known;
  int device = 0;
  cudaGetDevice(&device);
  const Key key{device, g.m, g.n, g.k, g.trans_a, g.trans_b, g.a.pitch, g.b.pitch, g.c.pitch, static_cast<int>(g.a.type), static_cast<int>(g.c.type), !g.bias.empty(),
                alignment_of(g.a), alignment_of(g.b), alignment_of(g.c)};
  std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) {
    algorithm = found->second;
    return true;
  }
  cublasLtMatmulPreference_t preference = nullptr;
  attempt(cublasLtMatmulPreferenceCreate(&preference));
  const std::uint64_t workspace = Workspace::bytes;
  const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes));
  const std::uint32_t first = alignment_of(g.b), second = alignment_of(g.a), third = alignment_of(g.c);
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first, sizeof first));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second, sizeof second));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &third, sizeof third));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &third, sizeof third));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  attempt(cublasLtMatmulAlgoGetHeuristic(handle, d.operation, d.a, d.b, d.c, d.c, preference, 1, &result, &found));
  cublasLtMatmulPreferenceDestroy(preference);
  if (found < 1) return false;
  algorithm = known[key] = result.algo;
  return true;
}

}  // namespace

const char* gpu::gemm(const GemmArgs& g, void* stream) {
  Try attempt;
  Description d;
  const auto handle = handle_of_thread(attempt);
  describe(g, d, attempt);
  if (attempt.first != CUBLAS_STATUS_SUCCESS) return cublasLtGetStatusString(attempt.first);
  cublasLtMatmulAlgo_t algorithm;
  if (!choose(g, d, handle, algorithm, attempt)) return attempt.first != CUBLAS_STATUS_SUCCESS ? cublasLtGetStatusString(attempt.first) : "cuBLASLt knows no algorithm for this product";
  const float one = 1, beta = g.accumulate ? 1.0f : 0.0f;
  const double one64 = 1, beta64 = g.accumulate ? 1.0 : 0.0;
  const bool wide = g.a.type == Type::f64;
  attempt(cublasLtMatmul(handle, d.operation, wide ? static_cast<const void*>(&one64) : &one, g.b.data, d.a, g.a.data, d.b, wide ? static_cast<const void*>(&beta64) : &beta, g.c.data,
                         d.c, g.c.data, d.c, &algorithm, Workspace(g.scratch).data, Workspace::bytes, static_cast<cudaStream_t>(stream)));
  if (attempt.first != CUBLAS_STATUS_SUCCESS) return cublasLtGetStatusString(attempt.first);
  if (g.gelu.empty()) return nullptr;
  return gpu::activation({ActivationKernel::gelu_forward, g.c, {}, {}, g.gelu, {}, 1}, stream);
}

}  // namespace trainyard::kernels
