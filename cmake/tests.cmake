# One executable and one ctest test a file, named by its path: tests/kernels/test_gelu.c is "kernels/test_gelu", so
# `ctest -R gelu` runs it and `ctest -L kernels` its folder. Tests link the static library: they may call private
# functions (spmd__...), which the shared one hides.
pkg_check_modules(CHECK IMPORTED_TARGET check)
spmd_need("${CHECK_FOUND}" "Check" "check libsubunit-dev" "SPMD_TESTS")

file(GLOB harness_sources CONFIGURE_DEPENDS tests/harness/harness_*.c)
add_library(spmd_harness STATIC ${harness_sources})
target_link_libraries(spmd_harness PUBLIC spmdkit_static spmdkit_flags PkgConfig::CHECK m)
target_compile_definitions(spmd_harness PUBLIC ${SPMD_DEFINITIONS})

# More devices than cores: pinning and oneDNN's own threads would only fight. libgomp also blinds TSan.
set(test_environment SPMD_PIN=0 OMP_NUM_THREADS=1 SPMD_GOLDEN_DIR=${PROJECT_SOURCE_DIR}/tests/golden)
set(test_timeout 300)
if(SPMD_SANITIZE)
    set(test_timeout 1500)
endif()
if(SPMD_SANITIZE STREQUAL "thread")
    list(APPEND test_environment TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/supp/tsan.txt)
endif()
file(GLOB_RECURSE tests CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests tests/test_*.c)
foreach(source IN LISTS tests)
    get_filename_component(name ${source} NAME_WE)
    get_filename_component(folder ${source} DIRECTORY)
    add_executable(${name} tests/${source})
    target_link_libraries(${name} PRIVATE spmd_harness)
    if(folder STREQUAL "bench")
        target_link_libraries(${name} PRIVATE spmd_bench) # what the benches share
    endif()
    set_property(TARGET ${name} PROPERTY RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
    add_test(NAME ${folder}/${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
    set_tests_properties(${folder}/${name} PROPERTIES TIMEOUT ${test_timeout} LABELS "${folder}" SKIP_RETURN_CODE 77
        ENVIRONMENT "${test_environment}")
endforeach()

find_program(BASH_PROGRAM bash)
if(BASH_PROGRAM AND EXISTS ${PROJECT_SOURCE_DIR}/tests/lint.sh)
    add_test(NAME lint COMMAND ${BASH_PROGRAM} ${PROJECT_SOURCE_DIR}/tests/lint.sh)
    set_tests_properties(lint PROPERTIES TIMEOUT 300)
endif()
