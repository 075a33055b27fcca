"""Coefficients of the polynomials behind the vector math functions, lowest power first.

Each polynomial has the least maximum relative error of its degree over the stated interval (Remez
exchange in 230-bit arithmetic), rounded to the precision of its evaluation. The comment above
each table gives the approximated function, and the error before the coefficients are rounded.
"""

from __future__ import annotations

from typing import Final


def _polynomial(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


EXP: Final = {
    # `(exp(r) - 1 - r) / r**2` for |r| <= log(2)/2; 2**-28.3
    32: _polynomial("0x1.fffffcp-2 0x1.55549p-3 0x1.5558f4p-5 0x1.123a6cp-7 0x1.6a2366p-10"),
    # the same for float64; 2**-57.9
    64: _polynomial(
        "0x1.000000000000ap-1 0x1.55555555554f9p-3 0x1.55555555507eep-5 0x1.1111111127f07p-7 "
        "0x1.6c16c1844c1bcp-10 0x1.a01a0129acc4bp-13 0x1.a01999aa011c1p-16 0x1.71df25fd2d2f4p-19 "
        "0x1.28add25e185fcp-22 0x1.ad7f9bb62047dp-26"
    ),
}
EXPM1: Final = {
    # the same, weighted by the size of `expm1(r)`; 2**-31.9
    32: _polynomial(
        "0x1.0p-1 0x1.555554p-3 0x1.5554bp-5 0x1.11118cp-7 0x1.6d7298p-10 0x1.a02f32p-13"
    ),
    # the same for float64; 2**-61.7
    64: _polynomial(
        "0x1.0p-1 0x1.5555555555559p-3 0x1.555555555553ep-5 0x1.111111110f6a9p-7 "
        "0x1.6c16c16c1f15bp-10 0x1.a01a01afe9c86p-13 0x1.a01a017b982d4p-16 0x1.71ddf841b2279p-19 "
        "0x1.27e5365baa9fap-22 0x1.af5ee8cfc7e25p-26 0x1.1ee88deefcdabp-29"
    ),
}
EXP2: Final = {
    # `(2**r - 1) / r` for |r| <= 1/2; 2**-28.9
    32: _polynomial(
        "0x1.62e43p-1 0x1.ebfbdcp-3 0x1.c6aee6p-5 0x1.3b2d5p-7 0x1.5f3f3p-10 0x1.41fb2ep-13"
    ),
    # the same for float64; 2**-58.0
    64: _polynomial(
        "0x1.62e42fefa39efp-1 0x1.ebfbdff82c5a5p-3 0x1.c6b08d7049fe6p-5 0x1.3b2ab6fba0076p-7 "
        "0x1.5d87fe78cdb4dp-10 0x1.4309130efc053p-13 0x1.ffcbfba8943d8p-17 0x1.62bfc73ee61b7p-20 "
        "0x1.b5267deb71ba4p-24 0x1.e61bfbf071e9dp-28 0x1.e79b6e62084f4p-32"
    ),
}
EXP10: Final = {
    # `(10**r - 1) / r` for |r| <= log10(2)/2; 2**-28.9
    32: _polynomial(
        "0x1.26bb1cp+1 0x1.53524ap+1 0x1.046f68p+1 0x1.2bd9d8p+0 0x1.158502p-1 0x1.a68b4p-3"
    ),
    # the same for float64; 2**-58.0
    64: _polynomial(
        "0x1.26bb1bbb55516p+1 0x1.53524c73cea78p+1 0x1.0470591de2c28p+1 0x1.2bd7609fd4e8ep+0 "
        "0x1.1429ffd1f3dbbp-1 0x1.a7ed70a217f16p-3 0x1.16e4df63503f8p-4 0x1.41165e067e47bp-6 "
        "0x1.4898b56cef1acp-8 0x1.2f74d663e5d24p-10 0x1.f9954e22b2844p-13"
    ),
}
# `(log(1+f) - f + f**2/2) / f**3` for sqrt(1/2) <= 1+f <= sqrt(2); 2**-30.3
LOG_32: Final = _polynomial(
    "0x1.555548p-2 -0x1.000006p-2 0x1.99a4c8p-3 -0x1.555c5cp-3 0x1.2335bap-3 -0x1.fc1d6ep-4 "
    "0x1.e706bp-4 -0x1.de6518p-4 0x1.1456f8p-4"
)
# `(log((1+s)/(1-s)) - 2*s) / s**3` in z = s**2 for the same interval of (1+s)/(1-s); 2**-58.5
LOG_64: Final = _polynomial(
    "0x1.5555555555593p-1 0x1.999999997f8a5p-2 0x1.249249423e6f5p-2 0x1.c71c51c65a24dp-3 "
    "0x1.74664d79aac25p-3 0x1.39a02ea5f66f6p-3 0x1.2f15bd9c4c741p-3"
)
SIN: Final = {
    # `(sin(r) - r) / r**3` in z = r**2 for |r| <= pi/4; 2**-28.0
    32: _polynomial("-0x1.555546p-3 0x1.110736p-7 -0x1.994222p-13"),
    # the same for float64; 2**-68.7
    64: _polynomial(
        "-0x1.5555555555555p-3 0x1.111111111110bp-7 -0x1.a01a01a018a51p-13 0x1.71de3a532e40dp-19 "
        "-0x1.ae64528a7657dp-26 0x1.61208a51fb605p-33 -0x1.aaa14aa86278ap-41"
    ),
}
COS: Final = {
    # `(cos(r) - 1 + r**2/2) / r**4` in z = r**2 for |r| <= pi/4; 2**-33.0
    32: _polynomial("0x1.55554ap-5 -0x1.6c0c2ep-10 0x1.99ea2p-16"),
    # the same for float64; 2**-75.0
    64: _polynomial(
        "0x1.5555555555555p-5 -0x1.6c16c16c16c0fp-10 0x1.a01a01a018cb1p-16 -0x1.27e4fb75e9deep-22 "
        "0x1.1eed8c8ee7bp-29 -0x1.939321f9b8c3dp-37 0x1.aabc207a34226p-45"
    ),
}
ERF_SMALL: Final = {
    # `erf(a)/a - 1` in z = a**2 for |a| <= 1; 2**-29.6
    32: _polynomial(
        "0x1.06eba8p-3 -0x1.81273ep-2 0x1.ce2cf4p-4 -0x1.b7f8dcp-6 0x1.540418p-8 -0x1.a3eaap-11 "
        "0x1.494696p-14"
    ),
    # the same for float64; 2**-62.7
    64: _polynomial(
        "0x1.06eba8214db69p-3 -0x1.812746b0379e6p-2 0x1.ce2f21a042b1ep-4 -0x1.b82ce312848f9p-6 "
        "0x1.565bcd0dae90bp-8 -0x1.c02db3d89ffa9p-11 0x1.f9a32198025dcp-14 -0x1.f4d1de848566p-17 "
        "0x1.b9dee848bbdfap-20 -0x1.5f1ce56d374f3p-23 0x1.f7a090a69cf9dp-27 -0x1.385fa81122c54p-30 "
        "0x1.055afa63648f9p-34"
    ),
}
ERF_TAIL: Final = {
    # `-log(1 - erf(a))` in a - 2 for 1 <= a <= 3.95, weighted by 1 - erf(a); 2**-35.5
    32: _polynomial(
        "0x1.575b32p+2 0x1.1ac326p+2 0x1.d8f5e4p-1 0x1.0dc6a2p-6 -0x1.d3fe2ep-9 0x1.7ed896p-11 "
        "-0x1.20d24p-13 0x1.6bd79p-16"
    ),
    # the same up to 5.95; 2**-59.5
    64: _polynomial(
        "0x1.575b329b1f516p+2 0x1.1ac3258a8dc2fp+2 0x1.d8f5dece9248bp-1 0x1.0dc3b5fb0bcdp-6 "
        "-0x1.d406b3751d853p-9 0x1.7ffcfb46a9e75p-11 -0x1.1bc3a55ac8c8cp-13 0x1.5b65734326c5fp-16 "
        "-0x1.0604df9c0be36p-19 -0x1.b5518fe1b4576p-23 0x1.73f48b9e31f6fp-23 "
        "-0x1.f079d230ec0b1p-25 0x1.df54bc5f51232p-27 -0x1.5cf417a34e08dp-29 0x1.2dc127e3a3f94p-32 "
        "0x1.7a5075d89b1f5p-35 -0x1.48d592c9f37cep-35 0x1.6466a71fc947dp-37 -0x1.254aa44f2a168p-40"
    ),
}
# `log2((1+s)/(1-s)) / s` in z = s**2, in doubles, for pow of float32; 2**-52.3
LOG2_FOR_POW_32: Final = _polynomial(
    "0x1.71547652b82ffp+1 0x1.ec709dc39c8f9p-1 0x1.2776c516c2b78p-1 0x1.a61756577fc7bp-2 "
    "0x1.484fb4f00031cp-2 0x1.0bb69e34595b9p-2 0x1.f1a021e7beaadp-3"
)
# `(2**r - 1) / r` for |r| <= 1/2, in doubles, for pow of float32; 2**-34.3
EXP2_FOR_POW_32: Final = _polynomial(
    "0x1.62e42ff0e4046p-1 0x1.ebfbe0784b84p-3 0x1.c6b08abc7d49p-5 0x1.3b29f2d4dff94p-7 "
    "0x1.5d8a8862fcb75p-10 0x1.445d32073ed6fp-13 0x1.fde53f3fc4115p-17"
)
# `((log((1+s)/(1-s)) - 2*s) / s**3 - 2/3) / z` in z = s**2, for pow of float64; 2**-73.5
LOG_FOR_POW_64: Final = _polynomial(
    "0x1.9999999999995p-2 0x1.249249249305ep-2 0x1.c71c71c57b75ap-3 0x1.745d1834b22e6p-3 "
    "0x1.3b13621416652p-3 0x1.1120cdfb98da5p-3 0x1.de2f937348efp-4 0x1.eb31553c45236p-4"
)
