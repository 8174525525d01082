!> What a run of names needs.
program test_metadata
    use, intrinsic :: iso_fortran_env, only: int64
    use benchio_metadata, only: metadata_bytes, metadata_room
    use check, only: expect
    implicit none (type, external)

    call expect(metadata_bytes(5, 3) == 3*(8 + 16 + 24 + 32 + 8), 'files of one to four words')
    call expect(metadata_room(5, 3, 4096_int64) == 2*5*3*4096_int64, &
        'files and directories have a block each')
    call expect(metadata_room(5, 3, 4194304_int64) == 2*5*3*65536_int64, &
        'or less, where a block is what a stripe is')
    call expect(metadata_room(5, 3, 0_int64) == 2*5*3, 'or none, where nobody knows')
end program test_metadata
