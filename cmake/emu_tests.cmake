# Tests of the emulated CUDA: each file tests/emu/test_*.cu or .c is one program, run under two policies.
file(GLOB emu_tests CONFIGURE_DEPENDS tests/emu/test_*.cu tests/emu/test_*.c)
foreach(source IN LISTS emu_tests)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    set(checking "")
    if(name MATCHES "_unchecked_")
        set(checking UNCHECKED)
    endif()
    spmd_emulate(${name} ${checking})
    target_link_libraries(${name} PRIVATE PkgConfig::CHECK spmdkit_flags)
    target_link_options(${name} PRIVATE -no-pie)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/emu)
    foreach(policy late random)
        add_test(NAME emu/${name}/${policy} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests/emu)
        set_tests_properties(emu/${name}/${policy} PROPERTIES TIMEOUT ${test_timeout} LABELS emu SKIP_RETURN_CODE 77
            ENVIRONMENT "EMU_POLICY=${policy}")
    endforeach()
endforeach()

# The installed emulator, used by another project.
add_test(NAME emu/install COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR}
    -DSOURCE=${PROJECT_SOURCE_DIR}/examples/08_check_my_kernel -DCUDA_INCLUDE=${SPMD_CUDA_INCLUDE_DIR}
    -P ${PROJECT_SOURCE_DIR}/tests/install/emulated.cmake)
set_tests_properties(emu/install PROPERTIES TIMEOUT ${test_timeout} LABELS emu)
