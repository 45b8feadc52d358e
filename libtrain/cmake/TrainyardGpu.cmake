# The GPU module: runtime and kernels in one shared library that programs open when they are asked for a GPU (libtrain/tensor/gpu.h), so that one binary starts
# with and without CUDA. TRAINYARD_CUDA is on where a CUDA compiler is found.
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER AND NOT TRAINYARD_SANITIZE)
  set(cuda_found ON)
else()
  set(cuda_found OFF)
endif()
option(TRAINYARD_CUDA "build the CUDA module" ${cuda_found})

if(NOT TRAINYARD_CUDA)
  message(STATUS "CUDA: off; programs will refuse --device cuda")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
set(CMAKE_CUDA_FLAGS_INIT "")
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# CMake 3.25 does not know nvcc's C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*_cuda.cu)
add_library(trainyard_cuda MODULE ${cuda_sources} ${CMAKE_SOURCE_DIR}/kernels/gpu_module.cpp ${CMAKE_SOURCE_DIR}/libtrain/tensor/gpu_runtime_cuda.cpp)
target_include_directories(trainyard_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(trainyard_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=true --extended-lambda --compress-mode=size -Xcompiler=-Wall,-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter>)
target_link_libraries(trainyard_cuda PRIVATE CUDA::cudart_static CUDA::cublasLt trainyard_base)
set_target_properties(trainyard_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)
install(TARGETS trainyard_cuda LIBRARY DESTINATION lib/trainyard)
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
