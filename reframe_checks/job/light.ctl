; The sources fill the cell and change along it, so that every component of the fields is soon
; nonzero everywhere. Meep has no timer for its states, but a clock. Meep writes each word that it
; is to print by itself, and all processes print: only a line of one word stays whole.

(define-param goes-on? false)
(define states 3)
(define pi (* 4 (atan 1)))

(set! geometry-lattice (make lattice (size 6 6 6)))
(set! resolution 10)
(set! k-point (vector3 0 0 0))
(define (source-of field x y)
  (make source (src (make continuous-src (frequency 0.3))) (component field)
    (center 0 0 0) (size 6 6 6)
    (amp-func (lambda (p) (sin (+ 0.1 (* pi 1/3 (+ (x p) (* 2 (y p))))))))))
(set! sources (list (source-of Ex vector3-y vector3-z)
                    (source-of Ey vector3-z vector3-x)
                    (source-of Ez vector3-x vector3-y)))

(define (file n) (string-append "fields-" (number->string n) ".h5"))
(define (say words value) (print (string-append words (number->string value) "\n")))
(define (tell)
  (let ((time (number->string (meep-fields-time fields))))
    (say (string-append "energy at " time ": ") (meep-fields-field-energy fields))))
(define (save n)
  (meep-all-wait)
  (let ((began (meep-wall-time)))
    (meep-fields-dump fields (file n) true)
    (meep-all-wait)
    (say "seconds to save: " (- (meep-wall-time) began))))

(init-fields)
(if (not goes-on?) (run-until 1))
(do ((n 1 (1+ n))) ((> n states))
  (if goes-on? (meep-fields-load fields (file n) true))
  (tell)
  (if (not goes-on?) (save n))
  (run-until 0.25)
  (if (or goes-on? (= n states)) (tell)))
