import os
os.environ["TRITON_INTERPRET"]="1"
import torch, time
from gensmooth.torch import gpu, cpu
from gensmooth.streams import key_and_counter, Purpose
key=key_and_counter(0xdeadbeefcafebabe, Purpose.DIRECTION, 5)
bad=0
for dt in (torch.float32, torch.float16, torch.float64):
  for n in (100, 5001, 5000):
    w=torch.randn(n,dtype=torch.float32).to(dt)
    for law in (0,1):
      for idx,am,keep in (([3],[1e-3],1.0),([0,1,2],[.1,-.02,.003],0.9)):
        for ch in (None, (torch.rand(-(-n//2048))<.5).to(torch.uint8)):
          a=torch.empty_like(w); b=torch.empty_like(w)
          cpu.move(key,law,ch,w,idx,am,keep,a); gpu.move(key,law,ch,w,idx,am,keep,b)
          eq=torch.equal(a,b)
          if not eq: print(dt,n,law,idx,ch is not None,(a.double()-b.double()).abs().max().item(), (a!=b).sum().item()); bad+=1
    v=torch.randn(n,dtype=torch.float64 if dt==torch.float64 else torch.float32); v2=v.clone()
    for law in (0,1):
      for ch in (None, (torch.rand(-(-n//2048))<.5).to(torch.uint8)):
        cpu.gather(key,law,ch,[0,1],[.5,2.],.9,v); gpu.gather(key,law,ch,[0,1],[.5,2.],.9,v2)
        if not torch.equal(v,v2): print("gather",dt,n,law,(v-v2).abs().max()); bad+=1
    a=torch.empty_like(w); b=torch.empty_like(w)
    cpu.follow(w,v,-.1,.9,a); gpu.follow(w,v2,-.1,.9,b); 
    if not torch.equal(a,b): print("follow",dt,n); bad+=1
  w=torch.randn(37,700).to(dt); st=v.dtype
  L=torch.randn(5,37,dtype=st); R=torch.randn(5,700,dtype=st)
  a=torch.empty_like(w).view(-1); b=torch.empty_like(w).view(-1)
  cpu.add_products(L,R,w.view(-1),.9,a); gpu.add_products(L,R,w.view(-1),.9,b)
  if not torch.equal(a,b): print("prod",dt,(a.double()-b.double()).abs().max()); bad+=1
print("bad",bad)
