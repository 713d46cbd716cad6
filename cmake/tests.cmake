# One executable and one ctest test a file, named by its path: tests/kernels/test_gelu.c is "kernels/test_gelu", so
# `ctest -R gelu` runs it and `ctest -L kernels` its folder. Tests link the static library: they may call private
# functions (spmd__...), which the shared one hides.
pkg_check_modules(CHECK IMPORTED_TARGET check)
spmd_need("${CHECK_FOUND}" "Check" "check libsubunit-dev" "SPMD_TESTS")

# The testing kit is a library for users, too; what only this tree's tests need (golden values) stays beside it.
file(GLOB kit_sources CONFIGURE_DEPENDS tests/kit/kit_*.c)
add_library(spmdkit_testing STATIC ${kit_sources})
add_library(spmdkit::testing ALIAS spmdkit_testing)
if(SPMD_CUDA STREQUAL "EMU")
    target_compile_definitions(spmdkit_testing PRIVATE SPMD_EMU) # time limits
endif()
set_target_properties(spmdkit_testing PROPERTIES EXPORT_NAME testing POSITION_INDEPENDENT_CODE ON)
target_include_directories(spmdkit_testing PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/spmdkit>)
# No spmdkit here: the user's program decides between spmdkit::spmdkit and spmdkit::static.
target_link_libraries(spmdkit_testing PUBLIC m
    "$<BUILD_INTERFACE:PkgConfig::CHECK>" "$<INSTALL_INTERFACE:${CHECK_LIBRARIES}>"
    PRIVATE $<BUILD_INTERFACE:spmdkit_flags>)

file(GLOB harness_sources CONFIGURE_DEPENDS tests/harness/*.c)
add_library(spmd_harness STATIC ${harness_sources})
target_link_libraries(spmd_harness PUBLIC spmdkit_testing spmdkit_static spmdkit_flags)
target_compile_definitions(spmd_harness PUBLIC ${SPMD_DEFINITIONS})

find_program(BASH_PROGRAM bash)

# More devices than cores: pinning and oneDNN's own threads would only fight. libgomp also blinds TSan.
set(test_environment SPMD_PIN=0 OMP_NUM_THREADS=1 SPMD_GOLDEN_DIR=${PROJECT_SOURCE_DIR}/tests/golden)
set(test_timeout 300)
if(SPMD_SANITIZE OR SPMD_CUDA STREQUAL "EMU")
    set(test_timeout 1500)
endif()
if(SPMD_SANITIZE STREQUAL "thread")
    list(APPEND test_environment TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/supp/tsan.txt)
endif()
set(sharded_tests "") # what runs shard functions runs on emulated devices, too (cmake/emu_tests.cmake)
file(GLOB_RECURSE tests CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests tests/test_*.c)
list(FILTER tests EXCLUDE REGEX "^emu/") # cmake/emu_tests.cmake
foreach(source IN LISTS tests)
    get_filename_component(name ${source} NAME_WE)
    get_filename_component(folder ${source} DIRECTORY)
    add_executable(${name} tests/${source})
    target_link_libraries(${name} PRIVATE spmd_harness)
    if(folder STREQUAL "bench")
        target_link_libraries(${name} PRIVATE spmd_bench) # what the benches share
    endif()
    if(name STREQUAL "test_measure")
        target_sources(${name} PRIVATE cli/apart.c)
    endif()
    if(name STREQUAL "test_render")
        target_link_libraries(${name} PRIVATE ${SPMD_CLI_LIBRARIES})
    endif()
    if(folder STREQUAL "cuda" AND TARGET spmd_emu)
        target_link_libraries(${name} PRIVATE spmd_cuda) # they control the emulator
    endif()
    set_property(TARGET ${name} PROPERTY RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
    add_test(NAME ${folder}/${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
    set_tests_properties(${folder}/${name} PROPERTIES TIMEOUT ${test_timeout} LABELS "${folder}" SKIP_RETURN_CODE 77
        ENVIRONMENT "${test_environment}")
    if(folder STREQUAL "cuda")
        set_tests_properties(${folder}/${name} PROPERTIES LABELS "cuda;emu"
            ENVIRONMENT "${test_environment};SPMD_CUDA_MEMORY=1")
    endif()
    # oneDNN multiplies in another way where there is no AVX-512; on other processors than x86 the name means nothing.
    if(name MATCHES "^test_(matmul|linear|pack_weight)")
        add_test(NAME avx2/${folder}/${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
        set_tests_properties(avx2/${folder}/${name} PROPERTIES TIMEOUT ${test_timeout} LABELS avx2 SKIP_RETURN_CODE 77
            ENVIRONMENT "${test_environment};ONEDNN_MAX_CPU_ISA=AVX2")
    endif()
    # What runs shard functions runs again on the hostile twin of the host backend (test_errors pins host's own texts).
    if(name STREQUAL "test_huge") # needs half of a small machine's memory
        set_tests_properties(${folder}/${name} PROPERTIES RUN_SERIAL TRUE)
    endif()
    if(name MATCHES "^test_(errors|meet_model|spec|huge|fold)$")
        continue()
    endif()
    if(folder MATCHES "^(spmd|collectives|kernels)$"
            OR name MATCHES "^test_(optim|mlp|shared_mlp|step_bits|train|allocations|checkpoints|predict)$")
        add_test(NAME strict/${folder}/${name} COMMAND ${name}
            WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
        set_tests_properties(strict/${folder}/${name} PROPERTIES TIMEOUT ${test_timeout} LABELS strict
            SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment};SPMD_TEST_BACKEND=host-strict")
        list(APPEND sharded_tests ${folder}/${name})
    endif()
endforeach()

# Examples of tests, built as a user would build them.
file(GLOB example_tests CONFIGURE_DEPENDS examples/*_test.c)
foreach(source IN LISTS example_tests)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE spmdkit::testing spmdkit::spmdkit spmdkit_flags)
    add_test(NAME examples/${name} COMMAND ${name})
    set_tests_properties(examples/${name} PROPERTIES TIMEOUT ${test_timeout} LABELS examples SKIP_RETURN_CODE 77
        ENVIRONMENT "${test_environment}")
endforeach()

if(TARGET spmd_emu)
    include(cmake/emu_tests.cmake)
endif()

# The installed package, used by another project.
add_test(NAME install/consumer COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR}
    -DSOURCE=${PROJECT_SOURCE_DIR}/tests/install -DTYPE=${CMAKE_BUILD_TYPE} "-DFLAGS=${sanitize}"
    -P ${PROJECT_SOURCE_DIR}/tests/install/consume.cmake)
set_tests_properties(install/consumer PROPERTIES TIMEOUT ${test_timeout} LABELS install
    ENVIRONMENT "${test_environment}")

if(BASH_PROGRAM AND EXISTS ${PROJECT_SOURCE_DIR}/tests/lint.sh)
    add_test(NAME lint COMMAND ${BASH_PROGRAM} ${PROJECT_SOURCE_DIR}/tests/lint.sh)
    set_tests_properties(lint PROPERTIES TIMEOUT 300)
endif()
