# Every tests/fuzz/fuzz_*.c is a program of libFuzzer. ctest runs each for a few seconds from its seeds; to look longer:
# build/fuzz/bin/fuzz_spec FOLDER tests/fuzz/seeds/spec, which keeps what it finds in FOLDER.
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SPMD_FUZZ needs libFuzzer, which comes with clang, not ${CMAKE_C_COMPILER_ID}. Use: "
        "cmake --preset fuzz")
endif()
set(SPMD_FUZZ_SECONDS 10 CACHE STRING "how long ctest lets each program look")
include(CTest)
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_sources)
    get_filename_component(name ${source} NAME_WE)
    string(REPLACE "fuzz_" "" what ${name})
    spmd_program(${name} ${source})
    target_link_libraries(${name} PRIVATE ${SPMD_BUILD_LIBRARIES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(found ${PROJECT_BINARY_DIR}/found/${what}) # the first folder is where new inputs go
    file(MAKE_DIRECTORY ${found})
    add_test(NAME fuzz/${what} COMMAND ${name} -max_total_time=${SPMD_FUZZ_SECONDS} -max_len=4096 -rss_limit_mb=1024
        -timeout=5 ${found} ${PROJECT_SOURCE_DIR}/tests/fuzz/seeds/${what})
    set_tests_properties(fuzz/${what} PROPERTIES TIMEOUT 120 LABELS fuzz)
endforeach()
target_sources(fuzz_run_log PRIVATE cli/run_log.c)
