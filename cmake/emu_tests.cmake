# Tests of the emulated CUDA, and of backend cuda on it. Devices work in an order by a seed, which every run draws anew
# and tells (tests/random_order.sh).
function(spmd_test_on_devices name folder environment)
    add_test(NAME ${name} COMMAND ${BASH_PROGRAM} ${PROJECT_SOURCE_DIR}/tests/random_order.sh ${name} ${ARGN}
        WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${test_timeout} LABELS emu SKIP_RETURN_CODE 77
        ENVIRONMENT "${test_environment};${environment}")
endfunction()

# Each file tests/emu/test_*.cu or .c is one program, run under two policies.
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
        spmd_test_on_devices(emu/${name}/${policy} emu EMU_POLICY=${policy} $<TARGET_FILE:${name}>)
    endforeach()
endforeach()

# The suite on 4 GPUs, which meshes of 8 shards share, and on 1 and 2; the longest tests are not repeated there.
foreach(test IN LISTS sharded_tests)
    get_filename_component(name ${test} NAME)
    get_filename_component(folder ${test} DIRECTORY)
    set(cuda "SPMD_TEST_BACKEND=cuda;EMU_POLICY=random;SPMD_CUDA_MEMORY=4") # MiB: memory is filled with NaN when taken
    if(name MATCHES "^test_(large|coll_faults)$")
        string(REPLACE SPMD_CUDA_MEMORY=4 SPMD_CUDA_MEMORY=160 cuda "${cuda}")
    endif()
    spmd_test_on_devices(emu/${test} ${folder} "${cuda};EMU_DEVICES=4" $<TARGET_FILE:${name}>)
    if(NOT name MATCHES "^test_(coll_grad|large|auto_property|checkpoint|checkpoints|train)$")
        foreach(gpus 1 2)
            spmd_test_on_devices(emu-${gpus}/${test} ${folder} "${cuda};EMU_DEVICES=${gpus}" $<TARGET_FILE:${name}>)
        endforeach()
    endif()
    if(name MATCHES "^test_(psum|gather|exchange|groups)$") # GPUs that cannot reach each other
        spmd_test_on_devices(emu/copy/${name} ${folder} "${cuda};EMU_DEVICES=16;SPMD_CUDA_TRANSPORT=copy"
            $<TARGET_FILE:${name}>)
    endif()
endforeach()

spmd_test_on_devices(emu/examples/02_own_kernel "" "EMU_DEVICES=4;EMU_POLICY=random"
    $<TARGET_FILE:02_own_kernel> cuda)
set_tests_properties(emu/examples/02_own_kernel PROPERTIES
    PASS_REGULAR_EXPRESSION "4 device.s.: mean swish 0.90521[0-9]*, d/db 0.1131") # host's

# The installed emulator, used by another project.
add_test(NAME emu/install COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR}
    -DSOURCE=${PROJECT_SOURCE_DIR}/examples/08_check_my_kernel -DCUDA_INCLUDE=${SPMD_CUDA_INCLUDE_DIR}
    -P ${PROJECT_SOURCE_DIR}/tests/install/emulated.cmake)
set_tests_properties(emu/install PROPERTIES TIMEOUT ${test_timeout} LABELS emu)
