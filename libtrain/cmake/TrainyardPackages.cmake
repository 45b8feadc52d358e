# Names in anonymous namespaces differ within a package (tests/structure/tidy.sh), so its sources can be compiled as one.
function(trainyard_join target)
  if(TRAINYARD_JOINED)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)   # which takes what a source keeps for itself for what several share
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
    endif()
  endif()
endfunction()

# trainyard_package(NAME [PACKAGES ...] [PUBLIC ...] [PRIVATE ...]): the library trainyard_NAME from every *.cpp of the folder and the folders in it.
# PACKAGES are the packages it may include; PUBLIC and PRIVATE are third-party targets.
function(trainyard_package name)
  cmake_parse_arguments(R "" "" "PACKAGES;PUBLIC;PRIVATE;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(pattern ${R_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  if(sources)
    add_library(trainyard_${name} STATIC ${sources})
    trainyard_join(trainyard_${name})
    set(scope PUBLIC)
    if(R_PRIVATE)
      target_link_libraries(trainyard_${name} PRIVATE ${R_PRIVATE})
    endif()
  else()
    add_library(trainyard_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(trainyard_${name} ${scope} trainyard_flags ${R_PUBLIC})
  foreach(package ${R_PACKAGES})
    target_link_libraries(trainyard_${name} ${scope} trainyard_${package})
  endforeach()
endfunction()

include(GNUInstallDirs)

# trainyard_tool(NAME [SOURCES ...] [LIBRARIES ...]): a program of tools/.
function(trainyard_tool name)
  cmake_parse_arguments(T "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  trainyard_join(${name})
  target_link_libraries(${name} PRIVATE trainyard_flags ${T_LIBRARIES} CLI11::CLI11)
  install(TARGETS ${name} RUNTIME DESTINATION bin)
  set_property(GLOBAL APPEND PROPERTY TRAINYARD_PROGRAMS ${name})
  if(NOT TRAINYARD_SANITIZE)   # the manual page and the completion are what the program says of itself
    set(share ${CMAKE_BINARY_DIR}/share)
    add_custom_command(TARGET ${name} POST_BUILD VERBATIM
      COMMAND ${CMAKE_COMMAND} -E make_directory ${share}/man/man1 ${share}/bash-completion/completions
      COMMAND sh -c "'$<TARGET_FILE:${name}>' --reference man >'${share}/man/man1/${name}.1' && '$<TARGET_FILE:${name}>' --reference bash >'${share}/bash-completion/completions/${name}'")
    install(FILES ${share}/man/man1/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${share}/bash-completion/completions/${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  endif()
endfunction()

# What a test that starts MPI needs around it. Open MPI unloads its plugins at the end, so a leak in one of them has no name by which it could be told from ours: the
# address sanitizer looks for leaks in the tests without MPI.
set(TRAINYARD_MPI_ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMP_WAIT_POLICY=passive")
if(TRAINYARD_SANITIZE MATCHES address)
  list(APPEND TRAINYARD_MPI_ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1")
endif()

# Sanitizers take several times as long, so all time limits of a folder's tests are stretched when the last of them is declared.
function(trainyard_stretch_time_limits)
  get_property(names DIRECTORY PROPERTY TESTS)
  foreach(name ${names})
    get_property(limit TEST ${name} PROPERTY TIMEOUT)
    math(EXPR limit "5 * ${limit}")
    set_tests_properties(${name} PROPERTIES TIMEOUT ${limit})
  endforeach()
endfunction()

# train_test(PACKAGE/NAME [RANKS n ...] [LIBRARIES ...] [ENVIRONMENT ...] [LABELS ...] [TIMEOUT s])
# builds tests/PACKAGE/NAME_test.cpp. Without RANKS: one ctest entry. With RANKS: one entry for each count, run under mpirun.
function(train_test path)
  cmake_parse_arguments(T "" "TIMEOUT" "RANKS;LIBRARIES;ENVIRONMENT;LABELS;SOURCES" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  cmake_language(DEFER GET_CALL stretch_time_limits deferred)
  if(TRAINYARD_SANITIZE AND NOT deferred)
    cmake_language(DEFER ID stretch_time_limits CALL trainyard_stretch_time_limits)
  endif()
  string(REPLACE "/" "_" target "${path}")
  set(target test_${target})
  add_executable(${target} ${CMAKE_SOURCE_DIR}/tests/${path}_test.cpp ${T_SOURCES})
  target_link_libraries(${target} PRIVATE trainyard_flags ${T_LIBRARIES} GTest::gtest)
  # Most tests only call the libraries, and wait for the compiler longer than for their own code. Those of arithmetic compute what they expect.
  if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT path MATCHES "^(kernels|tensor|params|model)/")
    target_compile_options(${target} PRIVATE -O1 -Wno-array-bounds)   # at -O1 gcc 12 sees strings whose bounds it then misjudges
    if(TARGET trainyard_test_headers AND T_LIBRARIES MATCHES trainyard_)   # others lack the definitions it is compiled with; at -O3 gcc 12 dies of it
      target_precompile_headers(${target} REUSE_FROM trainyard_test_headers)
    endif()
  endif()
  if(NOT T_RANKS)
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
    add_test(NAME ${path} COMMAND ${target})
    set(names ${path})
  else()
    foreach(n ${T_RANKS})
      add_test(NAME ${path}.${n} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -n ${n} $<TARGET_FILE:${target}>)
      list(APPEND names ${path}.${n})
      set_tests_properties(${path}.${n} PROPERTIES PROCESSORS ${n})
    endforeach()
  endif()
  set(environment "${T_ENVIRONMENT}")
  if(T_RANKS)
    list(APPEND environment ${TRAINYARD_MPI_ENVIRONMENT})
  endif()
  set_tests_properties(${names} PROPERTIES ENVIRONMENT "${environment}" TIMEOUT ${T_TIMEOUT})
  if(T_LABELS)
    set_tests_properties(${names} PROPERTIES LABELS "${T_LABELS}")
  endif()
endfunction()

# train_test_on_gpu(PACKAGE/NAME FILTER): two more entries for a test of train_test that can compute on a GPU (TRAINYARD_TEST_DEVICE): PACKAGE/NAME.gpu on the emulated module,
# which is slow, so only what FILTER names; PACKAGE/NAME.device on the CUDA module.
function(train_test_on_gpu path filter)
  string(REPLACE "/" "_" target "${path}")
  add_dependencies(test_${target} trainyard_emulated)
  add_test(NAME ${path}.gpu COMMAND test_${target} --gtest_filter=${filter})
  set_tests_properties(${path}.gpu PROPERTIES TIMEOUT 600 ENVIRONMENT "TRAINYARD_TEST_DEVICE=cuda;TRAINYARD_GPU_MODULE=$<TARGET_FILE:trainyard_emulated>;TRAINYARD_EMULATED_GPUS=1")
  if(TARGET trainyard_cuda)
    add_test(NAME ${path}.device COMMAND test_${target})
    set_tests_properties(${path}.device PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS gpu RUN_SERIAL TRUE ENVIRONMENT "TRAINYARD_TEST_DEVICE=cuda")
  endif()
endfunction()

# train_gpu_test(PACKAGE/NAME [LIBRARIES ...]): a test with a main of its own that ends with 77 where there is no GPU. Entries: PACKAGE/NAME, PACKAGE/NAME.late and PACKAGE/NAME.mixed on the emulated
# module (tests/emulated/stream.h), on every machine, and PACKAGE/NAME.device on the CUDA module.
function(train_gpu_test path)
  cmake_parse_arguments(G "" "TIMEOUT" "RANKS;LIBRARIES;ENVIRONMENT;LABELS;SOURCES" ${ARGN})
  train_test(${path} ${ARGN})
  string(REPLACE "/" "_" target "${path}")
  add_dependencies(test_${target} trainyard_emulated trainyard_standin_nccl)
  set(entries ${path})
  if(G_RANKS)
    list(TRANSFORM G_RANKS PREPEND "${path}." OUTPUT_VARIABLE entries)
  endif()
  set_tests_properties(${entries} PROPERTIES ENVIRONMENT
    "TRAINYARD_GPU_MODULE=$<TARGET_FILE:trainyard_emulated>;TRAINYARD_NCCL_LIBRARY=$<TARGET_FILE:trainyard_standin_nccl>;TRAINYARD_EMULATED_GPUS=8;${TRAINYARD_MPI_ENVIRONMENT}")
  if(NOT G_RANKS)   # and in other orders that CUDA allows; the stand-in for NCCL has none of its own
    foreach(order late mixed)
      add_test(NAME ${path}.${order} COMMAND test_${target})
      set_tests_properties(${path}.${order} PROPERTIES TIMEOUT 600
        ENVIRONMENT "TRAINYARD_GPU_MODULE=$<TARGET_FILE:trainyard_emulated>;TRAINYARD_EMULATED_GPUS=8;TRAINYARD_EMULATED_ORDER=${order}")
    endforeach()
  endif()
  if(TARGET trainyard_cuda)
    add_test(NAME ${path}.device COMMAND test_${target})
    set_tests_properties(${path}.device PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS gpu RUN_SERIAL TRUE)
  endif()
endfunction()
