!> What a run of names needs.
program test_metadata
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_metadata, only: metadata_operation
    use benchio_result, only: room_of_round, run_result
    use check, only: expect
    implicit none (type, external)

    type(metadata_operation) :: names
    type(run_result) :: run

    run%choice%items = 5
    run%plan%ranks = 3
    call names%plan(run)
    call expect(run%bytes == 3*(8 + 16 + 24 + 32 + 8), 'files of one to four words')
    run%place%mounted%block_bytes = 4096
    call expect(room_of_round(run) == 2*5*3*4096_int64, 'files and directories have a block each')
    run%place%mounted%block_bytes = 4194304
    call expect(room_of_round(run) == 2*5*3*65536_int64, &
        'or less, where a block is what a stripe is')
    run%place%mounted%block_bytes = 0
    call expect(room_of_round(run) == 2*5*3, 'or none, where nobody knows')
end program test_metadata
