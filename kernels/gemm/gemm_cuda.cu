// Products by cuBLASLt, with the epilogues that it fuses. Row-major c = op(a) op(b) is column-major c' = op(b') op(a').
// So the operands are swapped, and no data moves.
#include "kernels/gemm/gemm_epilogue.h"
#include "kernels/gpu_device.h"
#include "kernels/gpu_entries.h"
#include "libtrain/plan/blocks/scratch.h"

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

namespace trainyard::kernels {
namespace {

cudaDataType_t cuda_type(Type t) {
  switch (t) {
    case Type::f32: break;
    case Type::bf16: return CUDA_R_16BF;
    case Type::f16: return CUDA_R_16F;
    case Type::f64: return CUDA_R_64F;
  }
  return CUDA_R_32F;
}

// Remembers the first failure of a sequence of calls.
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

bool has_epilogue(const GemmArgs& g) {
  return !g.bias.empty() || !g.gelu.empty() || !g.gelu_of.empty() || !g.sums.empty();
}

// The output of the product itself. With a fused GELU it is `gelu`, and the library stores the value before GELU in c.
const Mat& result_of(const GemmArgs& g, bool fused) { return fused && !g.gelu.empty() ? g.gelu : g.c; }

void describe_epilogue(const GemmArgs& g, Description& d, Try& attempt) {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  ConstMat aside;
  if (!g.gelu.empty())
    epilogue = g.bias.empty() ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU_AUX_BIAS, aside = g.c;
  else if (!g.gelu_of.empty()) epilogue = CUBLASLT_EPILOGUE_DGELU, aside = g.gelu_of;
  else if (!g.sums.empty()) epilogue = CUBLASLT_EPILOGUE_BGRADB;
  else epilogue = CUBLASLT_EPILOGUE_BIAS;
  const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
    attempt(cublasLtMatmulDescSetAttribute(d.operation, what, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  const ConstMat vector = g.sums.empty() ? g.bias : ConstMat(g.sums);
  if (!vector.empty()) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector.data);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(vector.type));
  }
  if (aside.empty()) return;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aside.data);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aside.pitch);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, cuda_type(aside.type));
}

void describe(const GemmArgs& g, bool fused, Description& d, Try& attempt) {
  const bool wide = g.a.type == Type::f64;
  const Mat& result = result_of(g, fused);
  attempt(cublasLtMatmulDescCreate(&d.operation, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                   wide ? CUDA_R_64F : CUDA_R_32F));
  const cublasOperation_t first = g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  attempt(cublasLtMatmulDescSetAttribute(d.operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
  attempt(cublasLtMatmulDescSetAttribute(d.operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
  const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  attempt(cublasLtMatrixLayoutCreate(&d.a, cuda_type(g.b.type), size(g.trans_b ? g.k : g.n),
                                     size(g.trans_b ? g.n : g.k), g.b.pitch));
  attempt(cublasLtMatrixLayoutCreate(&d.b, cuda_type(g.a.type), size(g.trans_a ? g.m : g.k),
                                     size(g.trans_a ? g.k : g.m), g.a.pitch));
  attempt(cublasLtMatrixLayoutCreate(&d.c, cuda_type(result.type), size(g.n), size(g.m), result.pitch));
  if (fused) describe_epilogue(g, d, attempt);
}

// The library needs its workspace at a multiple of 256 bytes; an arena gives 64.
struct Workspace {
  explicit Workspace(void* scratch)
      : data(reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(scratch) + 255) / 256 * 256)) {}
  void* data;
  static constexpr std::uint64_t bytes = plan::gpu_gemm_scratch_bytes - 256;
};

// The largest power of two up to 256 that divides an operand's address. Without it the heuristic assumes 256, which a
// column slice may not have.
std::uint32_t alignment_of(const ConstMat& m) {
  const auto at = reinterpret_cast<std::uintptr_t>(m.data) | 256;
  return static_cast<std::uint32_t>(at & (~at + 1));
}

// The heuristic's first choice for a description; false if it has none. Sums that several blocks share go through the
// workspace, in a fixed order.
bool first_choice(const GemmArgs& g, bool fused, const Description& d, cublasLtHandle_t handle,
                  cublasLtMatmulAlgo_t& algorithm, Try& attempt) {
  if (attempt.first != CUBLAS_STATUS_SUCCESS) return false;
  cublasLtMatmulPreference_t preference = nullptr;
  attempt(cublasLtMatmulPreferenceCreate(&preference));
  const std::uint64_t workspace = Workspace::bytes;
  const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                               sizeof workspace));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                               sizeof schemes));
  const std::uint32_t first = alignment_of(g.b), second = alignment_of(g.a), third = alignment_of(result_of(g, fused));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first,
                                               sizeof first));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second,
                                               sizeof second));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &third,
                                               sizeof third));
  attempt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &third,
                                               sizeof third));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  attempt(cublasLtMatmulAlgoGetHeuristic(handle, d.operation, d.a, d.b, d.c, d.c, preference, 1, &result, &found));
  cublasLtMatmulPreferenceDestroy(preference);
  if (attempt.first != CUBLAS_STATUS_SUCCESS || found < 1) return false;
  algorithm = result.algo;
  return true;
}

struct Choice {
  cublasLtMatmulAlgo_t algorithm;
  bool fused = false;
};

// Takes what the library fuses, otherwise the product alone. The choice is remembered for each shape and never timed.
// So it is the same for the same product in every run of a library version.
bool choose(const GemmArgs& g, cublasLtHandle_t handle, Choice& choice, cublasStatus_t& failure) {
  using Key = std::array<std::int64_t, 18>;
  static std::mutex mutex;
  static std::map<Key, Choice> known;
  int device = 0;
  cudaGetDevice(&device);
  const std::int64_t epilogue = !g.bias.empty() + 2 * !g.gelu.empty() + 4 * !g.gelu_of.empty() + 8 * !g.sums.empty();
  const ConstMat aside = g.gelu.empty() ? g.gelu_of : ConstMat(g.gelu);
  const Key key{device,
                g.m,
                g.n,
                g.k,
                g.trans_a,
                g.trans_b,
                g.accumulate,
                g.a.pitch,
                g.b.pitch,
                g.c.pitch,
                static_cast<int>(g.a.type),
                static_cast<int>(g.c.type),
                epilogue,
                alignment_of(g.a),
                alignment_of(g.b),
                alignment_of(g.c),
                aside.pitch,
                alignment_of(aside)};
  std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) {
    choice = found->second;
    return true;
  }
  // The library needs the auxiliary value at multiples of 16 bytes.
  const ConstMat kept = g.gelu.empty() ? g.gelu_of : ConstMat(g.c);
  const bool fits = kept.empty() || (kept.pitch % 8 == 0 && alignment_of(kept) >= 16);
  for (const bool fused : {true, false}) {
    if (fused && (!has_epilogue(g) || g.a.type == Type::f64 || !fits)) continue;
    Try attempt;
    Description d;
    describe(g, fused, d, attempt);
    if (first_choice(g, fused, d, handle, choice.algorithm, attempt)) {
      choice.fused = fused;
      known[key] = choice;
      return true;
    }
    failure = attempt.first;
  }
  return false;
}

}  // namespace

const char* gpu::gemm(const GemmArgs& g, void* stream) {
  Try attempt;
  const auto handle = handle_of_thread(attempt);
  if (attempt.first != CUBLAS_STATUS_SUCCESS) return cublasLtGetStatusString(attempt.first);
  Choice choice;
  auto failure = CUBLAS_STATUS_SUCCESS;
  if (!choose(g, handle, choice, failure))
    return failure != CUBLAS_STATUS_SUCCESS ? cublasLtGetStatusString(failure)
                                            : "cuBLASLt knows no algorithm for this product";
  Description d;
  describe(g, choice.fused, d, attempt);
  const float one = 1, beta = g.accumulate ? 1.0f : 0.0f;
  const double one64 = 1, beta64 = g.accumulate ? 1.0 : 0.0;
  const bool wide = g.a.type == Type::f64;
  void* result = result_of(g, choice.fused).data;
  attempt(cublasLtMatmul(handle, d.operation, wide ? static_cast<const void*>(&one64) : &one, g.b.data, d.a, g.a.data,
                         d.b, wide ? static_cast<const void*>(&beta64) : &beta, result, d.c, result, d.c,
                         &choice.algorithm, Workspace(g.scratch).data, Workspace::bytes,
                         static_cast<cudaStream_t>(stream)));
  if (attempt.first != CUBLAS_STATUS_SUCCESS) return cublasLtGetStatusString(attempt.first);
  return choice.fused ? nullptr : gpu::gemm_epilogue(g, stream);
}

}  // namespace trainyard::kernels
