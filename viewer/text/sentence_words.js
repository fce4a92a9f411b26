// The words by which a full stop within a sentence is told from one at its end: those of text/sentence_words.py.

const words = (/** @type {string} */ text) => new Set(text.split(" "));

/** Abbreviations that a name, a noun or a number follows. */
export const ABBREVIATIONS = words(
  "Fa Inh geb Geb Hl hl Gebr inkl Inkl exkl Exkl zzgl abzgl einschl Einschl evtl Evtl ehem verh Jh Jhd Jhdt "
  + "Jahrh Dipl Ing Univ Abt Aufl Ausg Bez Ges Kap Kath kath Ev Verf Verl Hbf Bhf Tel Mio Mrd Tsd Min Std Sek Kgl "
  + "Frhr dt engl frz griech röm österr schweiz amerik sog bes vgl Vgl Anm Abb Abk Bibl Mitgl ungef urspr allg "
  + "wiss Bd Zi Str Fam Mo Di Mi Do Sa Vors Stellv stellv Präs Prov Bearb Übers Kapt Pfr esim Şti durchschn max "
  + "min insb insbes entspr zus gegr angebl Jan Jän Feb Febr Mär Mrz Apr Jun Jul Aug Sep Sept Okt Oct Nov Dez Dec "
  + "např tzv popř příp resp čís nám kap obr odst písm pozn srov tel ing Mgr MUDr JUDr PhDr RNDr Doc Prof ul pl "
  + "inż dyw gen dipl Doç Yrd Av Cad Sok Sk Mah Apt Alb Bşk örn Örn Hz bkz ör kb Kb ún Ún ld Ld ifj Ifj özv pld "
  + "tsz Dra Exmo Exma Ilmo Ilma Cia Eng séc pág núm Avda Dña aprox env boul éd pag Avv Arch bijv mevr Mevr им ул "
  + "проф акад тов обл пос тыс руб коп изд гос гр ред див вул буд пл бул инж");

/** Abbreviations that end sentences as often as not. */
export const AND_SO_ON = words(
  "etc usw atd stb vb vs itd itp");

/** Words that begin sentences, and are no names and no nouns of an ordinal number. */
export const BEGINNINGS = words(
  "the this that these those it he she they we you there here please note see if when then however also no not "
  + "some one two three four several many most both another people der die das den dem des ein eine einen einem "
  + "einer er sie es wir ich ihr man dies diese dieser dieses wenn falls bitte siehe nur nicht dann danach dort "
  + "hier jede jeder jedes alle auch so ist sind hat kein keine weil sonst andernfalls zwei drei mehrere viele "
  + "einige dabei dadurch damit dazu daher deshalb jetzt heute gestern später außerdem le la les un une il elle "
  + "ils elles on ce cet cette ces si je nous vous lorsque quand deux trois plusieurs du el los las una uno ella "
  + "ellos esto esta este estos cuando os as um uma ele ela eles elas isto isso se quando não é será lo gli egli "
  + "essa questo questa questi non è to ten ta tato tento toto tyto tím jinak což pokud když pak ale není jsou "
  + "žádný žádná všechny každý poté potom jest są jeśli jeżeli gdy nie ona oni bu şu bunu bunun bunlar eğer ancak "
  + "daha sonra her az egy ez ha nem ezt ezek ezért ekkor majd det de han hun hon vi jeg jag hvis om når när het "
  + "een dit dat deze zij wij als niet это он она они оно мы вы я ты если когда тогда при этом не нет так как что "
  + "все его её их цей ця це ці якщо він вона потом затем после даже ещё");

/** Words that begin sentences where they are capitalised; else they may follow an ordinal number. */
export const LINKS = words(
  "and or but so in on at to for from with by as of use und oder aber als bei mit in im am an auf aus für von "
  + "vor nach zu zum zur ohne um über unter wie was wer wo pour dans avec sans par et mais ou en con para por y o "
  + "com mas no na em ao per ma při po pro ve se do od za ile ama için és vagy og och i w для в на с и а но или "
  + "по у от до");

/** Languages that write no ordinal as a number with a full stop. */
export const NO_ORDINALS = words(
  "en fr es it pt nl ro ca gl cy ga sv ru uk bg el vi id ms sw");

/** Articles, prepositions and conjunctions of one letter, capitalised. */
export const SINGLE = new Set("AEIOSUVZKÉВСИАКОУЯ");
