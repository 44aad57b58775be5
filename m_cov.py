
def leaf(n):
    if n%2:
        return n
    return -n
def gen(n):
    for i in range(n):
        yield leaf(i)
class A:
    def m(self,k):
        try:
            if k==3: raise ValueError
            return sum(gen(k))
        except ValueError:
            return 7
        finally:
            self.z=1
def work(n):
    import threading
    out=[]
    def t(): out.append(sum(A().m(i) for i in range(n)))
    ts=[threading.Thread(target=t) for _ in range(3)]
    [x.start() for x in ts]; [x.join() for x in ts]
    return sum(out)
