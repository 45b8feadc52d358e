#!/usr/bin/env python3
"""AdamW over host memory: ours, DeepSpeed's CPU Adam and plain copies, by turns, in one run.

    python3 bench/compare_cpu_adam.py --deepspeed CHECKOUT --build build/release [--threads 1,2] [--parameters 67108864] [--rounds 9] [--gap 65536] [--folder FOLDER]

CHECKOUT is DeepSpeed's source. Run it with a Python that has torch, whose headers that source includes. The checkout's CPU Adam is compiled as its own
builder does on this processor, with -O3, to a library of one C function, which bench_host_update of the build calls. FOLDER keeps that library for the next run.
Ratios are what counts: compare rates only within a run.
"""
import argparse, os, subprocess, sys, sysconfig, tempfile

SHIM = r'''
#include "cpu_adam.h"
extern "C" int peer_adamw(float* p, float* gradient, float* m, float* v, std::int64_t n, std::int64_t step) {
  static const int made = create_adam_optimizer(0, 1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, true, false);
  if (made != 0) return made;
  auto tp = torch::from_blob(p, {n}), tg = torch::from_blob(gradient, {n}), tm = torch::from_blob(m, {n}), tv = torch::from_blob(v, {n});
  return ds_adam_step(0, static_cast<size_t>(step), 1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, true, tp, tg, tm, tv);
}
'''


def vectors():
    """What DeepSpeed's builder defines for this processor."""
    with open("/proc/cpuinfo") as f:
        flags = next((line for line in f if line.startswith("flags")), "").split()
    return "-D__AVX512__" if "avx512f" in flags else "-D__AVX256__" if "avx2" in flags else "-D__SCALAR__"


def built(checkout, folder):
    library = os.path.join(folder, "cpu_adam_peer.so")
    if os.path.exists(library):
        return library
    from torch.utils.cpp_extension import include_paths, library_paths
    source, shim = os.path.join(checkout, "csrc", "adam", "cpu_adam_impl.cpp"), os.path.join(folder, "shim.cpp")
    if not os.path.exists(source):
        sys.exit(f"{checkout} has no csrc/adam/cpu_adam_impl.cpp: --deepspeed is a checkout of DeepSpeed")
    with open(shim, "w") as f:
        f.write(SHIM)
    python = sysconfig.get_config_vars("INCLUDEPY", "LIBDIR", "LDLIBRARY")
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        sys.exit("this Python has no shared library, which torch's headers need here: use one with it")
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O3", "-march=native", "-fopenmp", vectors(), "-D__DISABLE_CUDA__", "-Wno-reorder", "-fPIC", "-shared"]
    command += ["-o", library + ".part", shim, source, "-I" + os.path.join(checkout, "csrc", "includes"), "-I" + python[0]]
    for path in include_paths():
        command += ["-isystem", path]
    for path in [*library_paths(), python[1]]:
        command += ["-L" + path, "-Wl,-rpath," + path]
    command += ["-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_python", "-l" + python[2].removeprefix("lib").split(".so")[0]]
    print("building DeepSpeed's CPU Adam, which takes minutes", file=sys.stderr, flush=True)
    if subprocess.run(command).returncode != 0:
        sys.exit("DeepSpeed's CPU Adam was not built")
    os.rename(library + ".part", library)
    return library


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--deepspeed", required=True, help="a checkout of DeepSpeed")
    p.add_argument("--build", required=True, help="a build of this repository with benchmarks")
    p.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, os.cpu_count()])
    p.add_argument("--parameters", type=int, default=64 << 20)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--gap", type=int, default=65536, help="bytes between arrays; 0 puts those of 67108864 parameters 256 MiB apart")
    p.add_argument("--folder", help="keeps what is built from DeepSpeed (default: nothing is kept)")
    a = p.parse_args()
    program = os.path.join(a.build, "bin", "bench_host_update")
    if not os.path.exists(program):
        p.error(f"{program} does not exist: build with -DTRAINYARD_BENCH=ON")
    with tempfile.TemporaryDirectory() as temporary:
        if a.folder:
            os.makedirs(a.folder, exist_ok=True)
        library = built(os.path.abspath(a.deepspeed), os.path.abspath(a.folder or temporary))
        for threads in a.threads:
            # Threads that wait take no processor time from the next in turn.
            subprocess.run([program, str(threads), str(a.parameters), str(a.rounds), str(a.gap), library], env={**os.environ, "OMP_WAIT_POLICY": "passive"}, check=True)


if __name__ == "__main__":
    main()
