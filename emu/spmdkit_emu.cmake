# Programs whose .cu files run on the emulated CUDA. Part of the package spmdkit_emu; the tree itself uses it, too.

# gcc calls the checker for every load and store (-fsanitize=thread, whose own library is not linked), and for every
# access to a misaligned address. clang's calls are others: with it kernels run, unchecked. So they do under a real
# sanitizer (SPMD_SANITIZE), which excludes the checker. Local arrays that are too large meet the page below the stack.
set(SPMD_EMU_COMPILE_OPTIONS -x c++ -g -fno-omit-frame-pointer -fstack-clash-protection)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT SPMD_SANITIZE)
    set(SPMD_EMU_CHECKING -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -fsanitize=alignment)
    list(APPEND SPMD_EMU_COMPILE_OPTIONS ${SPMD_EMU_CHECKING})
endif()

# spmd_emulate(TARGET [UNCHECKED]): compiles the target's .cu files as C++17 for the emulated CUDA, and links it.
function(spmd_emulate target)
    set(options ${SPMD_EMU_COMPILE_OPTIONS})
    if("UNCHECKED" IN_LIST ARGN AND SPMD_EMU_CHECKING)
        list(REMOVE_ITEM options ${SPMD_EMU_CHECKING})
    endif()
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cu$")
    set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${options}")
    target_compile_features(${target} PRIVATE cxx_std_17)
    target_compile_definitions(${target} PRIVATE SPMD_EMU)
    target_link_libraries(${target} PRIVATE spmdkit::emu)
endfunction()

# spmd_add_emulated_test(NAME SOURCES... [DEVICES n] [POLICIES p...] [SEEDS s...]): a program of .cu, .cpp and .c files
# as a ctest test, run once for each policy (early, late, random, newest; default: late random) and seed (default: 1).
# It fails when main returns another value than 0, or the checker found something.
function(spmd_add_emulated_test name)
    cmake_parse_arguments(PARSE_ARGV 1 EMU "" "DEVICES" "SOURCES;POLICIES;SEEDS")
    if(NOT EMU_SOURCES)
        set(EMU_SOURCES ${EMU_UNPARSED_ARGUMENTS})
    endif()
    if(NOT EMU_DEVICES)
        set(EMU_DEVICES 2)
    endif()
    if(NOT EMU_POLICIES)
        set(EMU_POLICIES late random)
    endif()
    if(NOT EMU_SEEDS)
        set(EMU_SEEDS 1)
    endif()
    add_executable(${name} ${EMU_SOURCES})
    spmd_emulate(${name})
    foreach(policy IN LISTS EMU_POLICIES)
        foreach(seed IN LISTS EMU_SEEDS)
            add_test(NAME ${name}/${policy}/${seed} COMMAND ${name})
            set_tests_properties(${name}/${policy}/${seed} PROPERTIES LABELS emu TIMEOUT 300
                ENVIRONMENT "EMU_DEVICES=${EMU_DEVICES};EMU_POLICY=${policy};EMU_SEED=${seed}")
        endforeach()
    endforeach()
endfunction()
