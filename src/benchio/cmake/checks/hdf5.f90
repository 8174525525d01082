!> What only a parallel HDF5 with the interface of Fortran 2003 has. The first line that does not
!> compile names what is missing, so what may be has a line of its own.
program parallel_hdf5
    use, intrinsic :: iso_c_binding, only: c_loc
    use, intrinsic :: iso_fortran_env, only: real64
    use mpi_f08, only: MPI_COMM_WORLD, MPI_INFO_NULL, MPI_Init
    use hdf5, only: h5dwrite_f, h5open_f, h5t_native_double, hid_t
    use hdf5, only: h5pset_fapl_mpio_f
    implicit none (type, external)

    integer(hid_t) :: access, dataset
    integer :: code
    real(real64), target :: field(1)

    call MPI_Init()
    call h5open_f(code)
    call h5pset_fapl_mpio_f(access, MPI_COMM_WORLD%mpi_val, MPI_INFO_NULL%mpi_val, code)
    call h5dwrite_f(dataset, h5t_native_double, c_loc(field), code)
end program parallel_hdf5
