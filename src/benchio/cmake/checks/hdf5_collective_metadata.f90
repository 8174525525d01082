!> HDF5 has these since 1.10.
program hdf5_collective_metadata
    use hdf5, only: h5pget_all_coll_metadata_ops_f, h5pget_coll_metadata_write_f, &
        h5pset_all_coll_metadata_ops_f, h5pset_coll_metadata_write_f, hid_t
    implicit none (type, external)

    integer(hid_t) :: access
    integer :: code
    logical :: collective

    call h5pset_all_coll_metadata_ops_f(access, .true., code)
    call h5pset_coll_metadata_write_f(access, .true., code)
    call h5pget_all_coll_metadata_ops_f(access, collective, code)
    call h5pget_coll_metadata_write_f(access, collective, code)
end program hdf5_collective_metadata
