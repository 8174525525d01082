! What benchio needs of ADIOS2, which must be for the MPI that benchio is for.
program check
    use, intrinsic :: iso_fortran_env, only: real64
    use mpi_f08, only: MPI_COMM_WORLD
    use adios2, only: adios2_adios, adios2_engine, adios2_init, adios2_io, adios2_mode_deferred, &
        adios2_mode_write, adios2_open, adios2_put, adios2_variable
    implicit none (type, external)

    real(real64) :: values(2)
    type(adios2_adios) :: library
    type(adios2_engine) :: engine
    type(adios2_io) :: io
    type(adios2_variable) :: variable
    integer :: code

    call adios2_init(library, MPI_COMM_WORLD%mpi_val, code)
    call adios2_open(engine, io, '', adios2_mode_write, MPI_COMM_WORLD%mpi_val, code)
    call adios2_put(engine, variable, values, adios2_mode_deferred, code)
end program check
