program pnetcdf_for_this_mpi
    use mpi_f08, only: MPI_COMM_WORLD, MPI_INFO_NULL, MPI_Init
    use pnetcdf, only: nf90mpi_create, nf90_64bit_data
    implicit none (type, external)

    integer :: code, file

    call MPI_Init()
    code = nf90mpi_create(MPI_COMM_WORLD%mpi_val, 'file', nf90_64bit_data, MPI_INFO_NULL%mpi_val, &
        file)
end program pnetcdf_for_this_mpi
