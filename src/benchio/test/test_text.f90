!> Text is one line, and numbers have no blanks.
program test_text
    use, intrinsic :: iso_fortran_env, only: int64, real64
    use benchio_text, only: decimal, extents, one_line, rate_text
    use check, only: expect
    implicit none (type, external)

    call expect(one_line('Other I/O error , error stack:'//achar(10)//'ADIOI_x(1): no'//achar(10)) &
        == 'Other I/O error , error stack: ADIOI_x(1): no', 'a text of several lines')
    call expect(len(one_line('v1'//achar(10)//achar(0))) == 2, 'what is at its end')
    call expect(one_line('bäck'//achar(127)//'slash') == 'bäck slash', 'letters beyond ASCII')
    call expect(decimal(-huge(1_int64) - 1) == '-9223372036854775808', 'the longest number')
    call expect(rate_text(12345.67_real64) == '  12345.7', 'a rate')
    call expect(rate_text(1.234_real64) == '     1.23', 'a slow one')
    call expect(rate_text(0.37_real64) == '    0.370', 'a very slow one')
    call expect(rate_text(0.000371_real64) == ' 3.71E-04', 'is not nothing')
    call expect(extents([1_int64, 20_int64, 300_int64]) == '1x20x300', 'extents')
end program test_text
