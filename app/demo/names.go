package demo

var givenNames = []string{
	"Mei", "Wei", "Lan", "Jun", "Hua", "Yan", "Ana", "Ben", "Carla", "Dmitri", "Elif", "Femi", "Grace", "Hugo", "Ines", "Jonas",
	"Kofi", "Lea", "Marta", "Noor", "Olga", "Pablo", "Qing", "Rosa", "Sanjay", "Tomoko", "Uma", "Viktor", "Wanjiru", "Ximena", "Yusuf", "Zoe",
}

var familyNames = []string{
	"Wang", "Li", "Zhang", "Chen", "Silva", "Garcia", "Novak", "Okafor", "Haddad", "Kim", "Sato", "Nguyen", "Patel", "Müller", "Rossi", "Dubois",
	"Jansen", "Kowalski", "Ivanova", "Yilmaz", "Mensah", "Castillo", "Lindqvist", "O'Brien", "Tanaka", "Singh", "Costa", "Fischer", "Moreau", "Santos", "Berg", "Cohen",
}
