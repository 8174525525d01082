!> HDF5 has these since 1.14, where it was built with its subfiling driver.
program hdf5_subfiling
    use, intrinsic :: iso_c_binding, only: c_int32_t
    use mpi_f08, only: MPI_COMM_WORLD, MPI_INFO_NULL
    use hdf5, only: h5fd_subfiling_config_t, h5pget_fapl_subfiling_f, h5pset_fapl_subfiling_f, &
        h5pset_mpi_params_f, hid_t
    implicit none (type, external)

    integer(hid_t) :: access
    integer :: code
    type(h5fd_subfiling_config_t) :: config

    call h5pset_mpi_params_f(access, MPI_COMM_WORLD%mpi_val, MPI_INFO_NULL%mpi_val, code)
    call h5pget_fapl_subfiling_f(access, config, code)
    config%shared_cfg%stripe_count = 2_c_int32_t
    call h5pset_fapl_subfiling_f(access, code, config)
end program hdf5_subfiling
