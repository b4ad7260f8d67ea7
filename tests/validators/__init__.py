"""What each provider refuses, told anew.

Written from the providers' documents and error texts, apart from the code that
writes the bodies: nothing is shared with it, so that one mistake is not made twice.
Each module has `problems(body)`: what is wrong with a body in the provider's own
form, as sentences; an empty list says that nothing is. `thinking` looks at whole
conversations instead: it is told what each request was answered with.
"""
