!> NetCDF is called by its interface of C: it needs no module.
program parallel_netcdf
    use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_char
    use mpi_f08, only: MPI_COMM_WORLD, MPI_INFO_NULL, MPI_Init
    implicit none (type, external)

    interface
        integer(c_int) function nc_create_par_fortran(path, mode, comm, info, file) bind(C)
            import :: c_char, c_int
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int), value :: mode, comm, info
            integer(c_int), intent(out) :: file
        end function nc_create_par_fortran
    end interface

    integer(c_int) :: code, file

    call MPI_Init()
    code = nc_create_par_fortran('file'//c_null_char, 0_c_int, MPI_COMM_WORLD%mpi_val, &
        MPI_INFO_NULL%mpi_val, file)
end program parallel_netcdf
