program parallel_netcdf
    use mpi_f08, only: MPI_COMM_WORLD, MPI_INFO_NULL, MPI_Init
    use netcdf, only: nf90_create, nf90_mpiio, nf90_netcdf4
    implicit none (type, external)

    integer :: code, file

    call MPI_Init()
    code = nf90_create('file', ior(nf90_netcdf4, nf90_mpiio), file, comm=MPI_COMM_WORLD%mpi_val, &
        info=MPI_INFO_NULL%mpi_val)
end program parallel_netcdf
